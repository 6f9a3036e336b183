"""Old Office files: converted by LibreOffice, or by a program that takes the same command line, in a closed room."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import zipfile
from pathlib import Path

import pytest

from knowledge.ingestion.blocks import Source
from knowledge.ingestion.convert import ConvertLimits, converted, find_program, refuse_without_program
from knowledge.ingestion.read_file import ReadOptions, read_file
from knowledge.ingestion.sniff import sniff
from portal.kernel.errors import ParseError
from tests.support.office_files import paragraph, word_file
from tests.support.running import until

WORD, POWERPOINT = "application/msword", "application/vnd.ms-powerpoint"
real = pytest.mark.skipif(not find_program(), reason="LibreOffice is not installed")


def a_program(folder: Path, body: str) -> str:
    """An executable that takes LibreOffice's command line: `$given` is the file, `$out` the folder, `$to` the type."""
    script = folder / "soffice"
    script.write_text(
        "#!/bin/sh\n"
        'for word in "$@"; do last="$word"; done\n'
        'while [ $# -gt 0 ]; do case "$1" in --convert-to) to="$2";; --outdir) out="$2";; -env:*) profile="$1";; esac\n'
        "shift; done\n"
        'given="$last"; suffix="${to%%:*}"; made="$out/document.$suffix"\n' + body + "\n"
    )
    script.chmod(0o755)
    return str(script)


def old_file(tmp_path: Path, data: bytes = b"old words", mime: str = WORD) -> Source:
    path = tmp_path / "stored"
    path.write_bytes(data)
    return Source(path, "letter.doc", mime)


def refusal(given: Source, limits: ConvertLimits) -> str:
    with pytest.raises(ParseError) as caught, converted(given, limits):
        pytest.fail("it was converted")
    assert "/" not in caught.value.message
    return caught.value.code


def test_the_converted_file_is_there_as_long_as_it_is_needed(tmp_path: Path) -> None:
    program = a_program(tmp_path, 'cat "$given" > "$made"; echo " as $to" >> "$made"')
    with converted(old_file(tmp_path), ConvertLimits(program=program)) as modern:
        assert modern.mime.endswith("wordprocessingml.document") and modern.name == "letter.doc"
        assert modern.path.read_text() == "old words as docx:MS Word 2007 XML\n"
    assert not modern.path.exists()
    with converted(old_file(tmp_path, mime=POWERPOINT), ConvertLimits(program=program)) as modern:
        assert modern.path.suffix == ".pptx" and "Impress" in modern.path.read_text()


def test_it_is_read_as_the_type_that_it_was(tmp_path: Path) -> None:
    stored = tmp_path / "ready.docx"
    stored.write_bytes(word_file(paragraph("Words of the old letter.")))
    program = a_program(tmp_path, f'cp "{stored}" "$made"')
    document = read_file(old_file(tmp_path), ReadOptions(converting=ConvertLimits(program=program)))
    assert document.mime == WORD and [block.text for block in document.blocks] == ["Words of the old letter."]


def test_each_run_has_a_profile_of_its_own_that_forbids_macros_and_links(tmp_path: Path) -> None:
    program = a_program(tmp_path, 'cat "${profile#*file://}/user/registrymodifications.xcu" > "$made"')
    with converted(old_file(tmp_path), ConvertLimits(program=program)) as modern:
        profile = modern.path.read_text()
    assert '"DisableMacrosExecution" oor:op="fuse"><value>true' in profile
    assert '"BlockUntrustedRefererLinks" oor:op="fuse"><value>true' in profile


def test_without_a_program_the_sentence_says_what_to_save_it_as(tmp_path: Path) -> None:
    with pytest.raises(ParseError) as caught:
        refuse_without_program(WORD, "no-such-program")
    assert caught.value.code == "needs_converter" and "DOCX or PPTX" in caught.value.message
    assert refusal(old_file(tmp_path), ConvertLimits(program="no-such-program")) == "needs_converter"
    refuse_without_program("application/pdf", "no-such-program")


@pytest.mark.parametrize("body", ["exit 1", ": > $made", 'ln -s /etc/passwd "$made"', "kill -9 $$"])
def test_what_gives_no_file_was_damaged(tmp_path: Path, body: str) -> None:
    assert refusal(old_file(tmp_path), ConvertLimits(program=a_program(tmp_path, body))) == "damaged_file"


def test_a_program_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    mark = f"{os.getpid()}.{time.monotonic_ns() % 10**6}"
    program = a_program(tmp_path, f"sleep 60{mark[-6:]} & sleep 60{mark[-6:]}")
    started = time.monotonic()
    assert refusal(old_file(tmp_path), ConvertLimits(program=program, seconds=1)) == "too_slow"
    assert time.monotonic() - started < 30
    until(lambda: f"sleep 60{mark[-6:]}" not in _processes())


def test_who_no_longer_wants_it_does_not_wait(tmp_path: Path) -> None:
    program = a_program(tmp_path, "sleep 600")
    limits = ConvertLimits(program=program)
    with pytest.raises(ParseError) as caught, converted(old_file(tmp_path), limits, lambda: True):
        pytest.fail("it was converted")
    assert caught.value.code == "cancelled"


def test_the_program_sees_no_keys_no_other_files_and_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "elsewhere" / "master.key"
    secret.parent.mkdir()
    secret.write_text("secret words")
    home = tmp_path / "program"
    home.mkdir()
    monkeypatch.setenv("ARCHWAY_TEST_SECRET", "in the environment")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        dial = f"/bin/bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected'"
        tries = f'cat "{secret}"; env; cat /proc/{os.getpid()}/environ; {dial}'
        program = a_program(home, f'({tries}) > "$made" 2>&1; echo end >> "$made"')
        with converted(old_file(tmp_path), ConvertLimits(program=program)) as modern:
            seen = modern.path.read_text()
    assert seen.endswith("end\n") and not any(word in seen for word in ("secret words", "in the env", "connected\n"))


@real
@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), [("doc", "docx"), ("ppt", "pptx")])
def test_libreoffice_reads_what_libreoffice_wrote(tmp_path: Path, old: str, new: str) -> None:
    from docx import Document
    from pptx import Presentation

    modern = tmp_path / f"letter.{new}"
    if new == "docx":
        words = Document()
        words.add_heading("泵的压力", 1)
        words.add_paragraph("The pressure is 7 bar.")
        words.save(str(modern))
    else:
        deck = Presentation()
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = "泵的压力", "The pressure is 7 bar."
        deck.save(str(modern))
    assert zipfile.is_zipfile(modern)
    profile = f"-env:UserInstallation=file://{tmp_path}/profile"
    subprocess.run(
        [find_program(), profile, "--headless", "--convert-to", old, "--outdir", str(tmp_path), str(modern)],
        check=True, capture_output=True,
    )  # fmt: skip
    path = tmp_path / f"letter.{old}"
    document = read_file(Source(path, path.name, sniff(path, path.name)), ReadOptions())
    assert document.blocks[0].kind == "heading" and document.blocks[0].text == "泵的压力"
    assert "The pressure is 7 bar." in document.text
    assert document.mime == (WORD if old == "doc" else POWERPOINT)


def _processes() -> str:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(found)
