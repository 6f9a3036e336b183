"""Writes the Office and PDF files of the sample workspace: `python -m sample.make`.

Text files under files/ (Markdown, HTML, CSV, TXT, JSON) are written by hand and are their own source. The same
sources give the same bytes each time; the results are committed, so seeding needs none of the libraries used here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from sample.markup import read_source
from sample.pdf import render_pdf
from sample.sheets import render_workbook
from sample.slides import render_deck
from sample.word import render_word

HERE = Path(__file__).resolve().parent
SOURCES, FILES = HERE / "source", HERE / "files"


def _word(lang: str) -> Callable[[Path], bytes]:
    return lambda path: render_word(read_source(path), lang)


def _pdf(path: Path) -> bytes:
    return render_pdf(read_source(path), "zh-CN")


def _workbook(path: Path) -> bytes:
    return render_workbook(json.loads(path.read_text(encoding="utf-8")))


def _deck(path: Path) -> bytes:
    return render_deck(json.loads(path.read_text(encoding="utf-8")))


# file under files/ → (source under source/, how it is drawn)
MADE: dict[str, tuple[str, Callable[[Path], bytes]]] = {
    "员工手册.pdf": ("staff-handbook.md", _pdf),
    "TH-Series-Product-Manual.docx": ("th-series-manual.md", _word("en-GB")),
    "TH-02快速安装指南.docx": ("th-02-quick-start.md", _word("zh-CN")),
    "价格表-2026.xlsx": ("price-list.json", _workbook),
    "2026-03-12产品评审会会议纪要.docx": ("review-minutes.md", _word("zh-CN")),
    "TH-03-Launch-Plan.pptx": ("launch-deck.json", _deck),
    "薪酬带宽-2026.pdf": ("salary-bands.md", _pdf),
    "Board-Memo-2026-Q1.docx": ("board-memo.md", _word("en-GB")),
    "Headcount-Plan-2026.xlsx": ("headcount-plan.json", _workbook),
}


def make(target: Path) -> None:
    """Write every made file into `target`, replacing what is there."""
    target.mkdir(parents=True, exist_ok=True)
    for name, (source, draw) in MADE.items():
        (target / name).write_bytes(draw(SOURCES / source))


if __name__ == "__main__":
    make(FILES)
    print(f"{len(MADE)} files written to {FILES}")
