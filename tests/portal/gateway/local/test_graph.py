from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from portal.gateway.local import weights
from portal.gateway.local.graph import ensure_graph, graph_path
from portal.kernel.errors import Unavailable


def test_two_processes_that_start_at_once_build_one_whole_graph(tmp_path: Path) -> None:
    folder = tmp_path / "空 folder"
    program = (
        "import sys, pathlib; from portal.gateway.local.graph import ensure_graph;"
        "print(ensure_graph(pathlib.Path(sys.argv[1])))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = {process.communicate(timeout=60)[0].strip() for process in running}
    path = graph_path(folder)
    assert answers == {str(path)}
    onnx.load(path)  # raises for half a file
    assert sorted(file.name for file in folder.iterdir()) == [path.name, f"{path.name}.lock"]


def test_the_file_is_named_after_the_weights(tmp_path: Path) -> None:
    assert weights.SHA256[:8] in graph_path(tmp_path).name


def test_a_graph_that_is_there_is_not_built_again(model_folder: Path, model: object) -> None:
    before = graph_path(model_folder).stat().st_mtime_ns
    assert ensure_graph(model_folder).stat().st_mtime_ns == before


def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tmp_path / "e5-small-q4.bin"
    changed.write_bytes(b"E5S1" + bytes(100))
    monkeypatch.setattr(weights, "_path", lambda: changed)
    with pytest.raises(Unavailable) as caught:
        weights.open_weights()
    assert caught.value.code == "embedding_weights_changed"


def test_missing_weights_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_path", lambda: None)
    assert not weights.is_installed()
    with pytest.raises(Unavailable) as caught:
        weights.open_weights()
    assert caught.value.code == "embedding_not_installed"


def test_a_folder_that_can_not_be_written_is_unavailable_and_its_name_stays_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (graph_path(tmp_path)).mkdir()  # a folder where the file should come to lie
    with pytest.raises(Unavailable) as caught:
        ensure_graph(tmp_path)
    assert caught.value.code == "embedding_not_installed"
    assert str(tmp_path) not in str(caught.value)
    assert str(tmp_path) in caplog.text
