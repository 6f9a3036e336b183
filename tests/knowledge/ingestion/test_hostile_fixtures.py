"""Abusive files, made by the script that lies beside the checkout: each refused in a sentence or read within bounds."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from knowledge.ingestion.reading import read

SCRIPT = Path(__file__).resolve().parents[3] / ".." / "shared" / "fixtures" / "hostile" / "make_hostile.py"
SECONDS = 60  # on a busy machine; most take milliseconds
# Name: the codes that are right, or the words that must be found (a few may do either).
REFUSED: dict[str, str] = {
    "bomb_ratio.docx": "archive_limit",
    "bomb_ratio.xlsx": "archive_limit",
    "bomb_ratio.pptx": "archive_limit",
    "bomb_lying_size.docx": "archive_limit",
    "bomb_20000_entries.docx": "archive_limit",
    "xxe_file.docx": "unsafe_xml",
    "xxe_ssrf.docx": "unsafe_xml",
    "xxe_shared_strings.xlsx": "unsafe_xml",
    "xxe.xml": "unsupported_type",
    "xxe_script.svg": "unsupported_type",
    "billion_laughs.docx": "unsafe_xml",
    "billion_laughs.xml": "unsupported_type",
    "quadratic_blowup.docx": "unsafe_xml",
    "deep_xml_100k.docx": "unsafe_xml",
    "image_bomb_50000px.png": "unsupported_type",
    "exe_renamed.pdf": "type_mismatch",
    "exe_renamed.docx": "type_mismatch",
    "png_renamed.docx": "type_mismatch",
    "docx_renamed.pdf": "type_mismatch",
    "pdf_renamed.txt": "type_mismatch",
    "xlsx_renamed.docx": "type_mismatch",
    "html_renamed.json": "type_mismatch",
    "text_renamed.docx": "type_mismatch",
    "plain_zip.docx": "type_mismatch",
    "elf_renamed.txt": "type_mismatch",
    "polyglot_pdf_zip.docx": "type_mismatch",
    "pdf_20000_pages.pdf": "too_many_pages",
    "no_text.txt": "no_text",
    "no_text.md": "no_text",
    "no_text.html": "no_text",
    "no_text.json": "no_text",
    "no_text.csv": "no_text",
    "json_nested_100k_arrays.json": "nested_too_deep",
    "json_nested_100k_objects.json": "nested_too_deep",
    "csv_200k_columns.csv": "too_many_cells",
    "text_combining_only.txt": "no_text",
    "html_entity_and_attr_flood.html": "no_text",
}
FOUND: dict[str, str] = {
    "bomb_nested.docx": "outer text",
    "zip_slip.docx": "zip slip body",
    "image_bomb_50000px.docx": "picture below",
    "polyglot_pdf_zip.pdf": "visible text",
    "polyglot_html_pdf.pdf": "visible text",
    "remote_template.docx": "remote template",
    "pdf_javascript_launch.pdf": "visible text",
    "pdf_deep_arrays_100k.pdf": "visible text",
    "pdf_prev_loop.pdf": "visible text",
    "pdf_huge_mediabox.pdf": "visible text",
    "xss.html": "harmless words 无害文字",
    "xss.md": "harmless words 无害文字",
    "xss.txt": "harmless words 无害文字",
    "xss.csv": "harmless words 无害文字",
    "xss.json": "harmless words 无害文字",
    "xss.docx": "harmless words 无害文字",
    "template_injection.md": "{{7*7}}",
    "csv_formula_injection.csv": "=cmd",
    "json_lone_surrogate.json": "完好的字",
    "json_huge_int.json": "999999",
    "json_200k_keys.json": "k199999: 199999",
    "csv_300k_rows.csv": "row 299999",
    "csv_unclosed_quote_5mb.csv": "never closed",
    "xlsx_far_cell.xlsx": "far",
    "text_invalid_utf8.txt": "tail ok",
    "text_one_line_5mb.txt": "无标点长行",
    "text_noncharacters.txt": "tags",
    "md_nested_quotes_20k.md": "a",
    "html_nested_100k.html": "innermost",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not SCRIPT.exists():
        pytest.skip("the script that makes the files is not beside this checkout")
    made = tmp_path_factory.mktemp("hostile")
    subprocess.run([sys.executable, str(SCRIPT), str(made)], check=True, capture_output=True)
    return made


@pytest.mark.slow
def test_every_hostile_file_is_refused_in_a_sentence_or_read_within_bounds(folder: Path) -> None:
    wrong: list[str] = []
    for path in sorted(folder.iterdir()):
        started = time.monotonic()
        report = read(path)
        if time.monotonic() - started > SECONDS:
            wrong.append(f"{path.name}: too slow")
        code = report["error"]["code"] if report["error"] else None
        text = "\n\n".join(block["text"] for block in report["blocks"])
        if bool(text) == bool(code):
            wrong.append(f"{path.name}: {code} and {len(text)} characters")
        if "root:" in text or "\x00" in text:
            wrong.append(f"{path.name}: holds what it must not")
        expected = "empty_file" if path.name.startswith("zero_bytes") else REFUSED.get(path.name)
        if expected is not None and code != expected:
            wrong.append(f"{path.name}: {code} instead of {expected}")
        if FOUND.get(path.name, "") not in text:
            wrong.append(f"{path.name}: {code or 'words missing'}")
    assert wrong == []
