"""Abusive files, made by the script that lies beside the checkout: each refused in a sentence or read within bounds.

Each goes through intake, the child process under its limits, and splitting. The figures are printed; see them with
`pytest -s`. Names of uploads have tests of their own (`tests/knowledge/api/test_upload_names.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.conf import settings

from knowledge import intake, storage
from knowledge.ingestion.blocks import Source
from knowledge.ingestion.sandbox import parse_file
from knowledge.ingestion.split import split
from knowledge.models import KnowledgeBase
from portal.gateway.local.tokens import E5TokenCounter
from portal.kernel.errors import ArchwayError
from portal.kernel.principal import Principal
from tests.support.memory import MemoryWatch
from tests.support.people import World

SCRIPT = Path(__file__).resolve().parents[3] / ".." / "shared" / "fixtures" / "hostile" / "make_hostile.py"
SECONDS = 300  # the limit of the reader; on a quiet machine nearly all take milliseconds
MEGABYTES = 1_500
TOKENS = 512  # what the local model takes
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
    "image_bomb_50000px.png": "too_many_pixels",
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


@dataclass(frozen=True)
class Outcome:
    """What became of one file: a code or a number of chunks, how long it took, and the peaks of memory in MB."""

    name: str
    code: str
    chunks: int
    longest: int
    text: str
    seconds: float
    worker: int
    child: int

    def __str__(self) -> str:
        result = self.code or f"{self.chunks} chunks"
        return f"{self.name[:34]:34} {result:20} {self.seconds:6.2f} s {self.worker:5} MB {self.child:5} MB"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not SCRIPT.exists():
        pytest.skip("the script that makes the files is not beside this checkout")
    made = tmp_path_factory.mktemp("hostile")
    subprocess.run([sys.executable, str(SCRIPT), str(made)], check=True, capture_output=True)
    return made


def outcome(principal: Principal, base: KnowledgeBase, path: Path) -> Outcome:
    code, text, leaves = "", "", []
    with MemoryWatch(os.getpid()) as memory:
        started = time.monotonic()
        try:
            revision = intake.receive(principal, base, path, path.name).revision
            assert revision is not None
            with storage.local_copy(revision.file) as stored:
                document = parse_file(Source(stored, revision.file_name, revision.mime))
            passages = split(document, E5TokenCounter())
            text = document.text
            leaves = [leaf.token_count for passage in passages for leaf in passage.leaves]
        except ArchwayError as error:
            code = error.code
        seconds = time.monotonic() - started
    return Outcome(path.name, code, len(leaves), max(leaves, default=0), text, seconds, memory.own, memory.below)


def faults_of(found: Outcome) -> list[str]:
    """What of an outcome is not as it must be."""
    expected = "empty_file" if found.name.startswith("zero_bytes") else REFUSED.get(found.name)
    checks = {
        f"took {found.seconds:.0f} s": found.seconds > SECONDS,
        f"worker {found.worker} MB, child {found.child} MB": max(found.worker, found.child) > MEGABYTES,
        f"{found.code or 'no code'} and {len(found.text)} characters": bool(found.text) == bool(found.code),
        "holds what it must not": "root:" in found.text or "\x00" in found.text or "%PDF" in found.text,
        f"a chunk of {found.longest} tokens": found.longest > TOKENS,
        f"{found.code} instead of {expected}": expected is not None and found.code != expected,
        "words missing": FOUND.get(found.name, "") not in found.text,
    }
    return [f"{found.name}: {sentence}" for sentence, wrong in checks.items() if wrong]


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)  # no transaction stands open for as long as a file takes
def test_every_hostile_file_is_refused_in_a_sentence_or_read_within_bounds(world: World, folder: Path) -> None:
    alice = world.principal(world.alice)
    stored = set((settings.ARCHWAY["DATA_DIR"]).rglob("*"))
    wrong: list[str] = []
    for path in sorted(folder.iterdir()):
        found = outcome(alice, world.base, path)
        print(found)
        wrong += faults_of(found)
    assert wrong == []
    added = {path.name for path in set(settings.ARCHWAY["DATA_DIR"].rglob("*")) - stored}
    assert not any("evil" in name for name in added)
    assert not list(Path("/tmp").glob("evil_*"))
