from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django.fixtures import Settings

from knowledge.evaluation import MEASURES, judge, read_set
from knowledge.evaluation_corpus import ensure_principal
from knowledge.models import Chunk, KnowledgeBase, Revision
from portal.kernel.errors import Invalid

CORPUS = [
    {"id": "leave", "title": "员工手册", "text": "员工每年有十天年假。\n\n年假须提前一周申请。"},
    {"id": "code", "title": "Error list", "text": "E-1024 means that the supply voltage is too low."},
    {"id": "lunch", "title": "食堂", "text": "食堂中午十一点半开门，供应两荤两素。"},
]
QUERIES = [
    {"id": "q1", "text": "年假有多少天"},
    {"id": "q2", "text": "e1024"},
    {"id": "unjudged", "text": "?"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    folder.mkdir()
    write(folder, CORPUS)
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, QUERIES)), "utf-8")
    (folder / "qrels.tsv").write_text("q1\tleave\t2\nq2\tcode\t1\nq2\tlunch\t0\n", "utf-8")
    return folder


def write(folder: Path, corpus: list[dict[str, str]]) -> None:
    (folder / "corpus.jsonl").write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in corpus), "utf-8")


def run(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    call_command("evaluate", str(folder), "--json", *arguments)
    report: dict[str, object] = json.loads(capsys.readouterr().out)
    return report


def test_measures_are_those_of_the_textbook() -> None:
    recall1, recall5, _, reciprocal, gain = judge(["x", "a", "b"], {"a": 2, "b": 1, "c": 1})
    assert (recall1, recall5, reciprocal) == (0, 2 / 3, 1 / 2)
    ideal = 2 + 1 / math.log2(3) + 1 / 2
    assert gain == pytest.approx((2 / math.log2(3) + 1 / 2) / ideal)


def test_only_judged_questions_are_asked_and_a_grade_of_nought_is_no_judgement(folder: Path) -> None:
    chosen = read_set(folder)
    assert [row["id"] for row in chosen.queries] == ["q1", "q2"]
    assert chosen.judged["q2"] == {"code": 1}
    assert len(read_set(folder, limit=1).queries) == 1


def test_a_folder_that_is_no_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as error:
        read_set(tmp_path)
    assert error.value.code == "evaluation_set_invalid"


@pytest.mark.django_db
def test_a_corpus_is_ingested_once_and_again_when_it_changes(
    folder: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "EMBEDDING_MODE": "inprocess"}
    report = run(folder, capsys)
    assert (report["set"], report["documents"], report["queries"]) == ("tiny", 3, 2)
    modes = report["modes"]
    assert isinstance(modes, dict) and set(modes) == {"blend", "keywords", "embedding"}
    assert set(modes["blend"]) == {*MEASURES, "p50_ms", "p95_ms"}
    assert modes["blend"]["ndcg@10"] == modes["keywords"]["recall@1"] == 1.0
    before = set(Chunk.objects.values_list("id", flat=True))
    run(folder, capsys, "--mode", "keywords", "--limit", "1")
    assert set(Chunk.objects.values_list("id", flat=True)) == before
    write(folder, CORPUS[:2])
    assert run(folder, capsys, "--mode", "keywords")["documents"] == 2
    base = KnowledgeBase.objects.get(workspace_id=ensure_principal().workspace_id)
    assert base.name == "eval:tiny"
    assert Revision.objects.filter(base=base, status="indexed").count() == 2
    with pytest.raises(CommandError):
        call_command("evaluate", str(folder / "absent"))
