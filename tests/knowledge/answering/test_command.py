"""`manage.py ask --written`: a model's answer on a terminal."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from knowledge.models import QueryRecord
from portal.gateway.models import UsageRecord
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint
from tests.support.people import World

pytestmark = pytest.mark.django_db(transaction=True)
QUESTION = "How many days of annual leave?"


class Terminal(StringIO):
    """Counts how often something was put on it at once."""

    pieces = 0

    def flush(self) -> None:
        self.pieces += 1
        super().flush()


def ask(*more: str) -> tuple[str, str, Terminal]:
    out, err = Terminal(), StringIO()
    call_command("ask", QUESTION, "--kb", "Handbook", "--as", "bob", "--written", *more, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue(), out


def test_the_models_answer_comes_in_pieces_with_the_passages_that_it_cites(library: World, models: ModelServer) -> None:
    chat_endpoint(models, is_default=True)
    text, _, terminal = ask()
    assert "ten days of annual leave" in text
    assert "handbook.md" in text.splitlines()[-1]
    assert "[1]" in text
    assert terminal.pieces > 2
    assert UsageRecord.objects.get(kind="chat").user == library.bob
    record = QueryRecord.objects.get()
    assert (record.answering, record.user) == ("done", library.bob)


def test_as_json_it_says_who_answered_and_from_what(
    library: World, models: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint = chat_endpoint(models, is_default=False)
    call_command("ask", QUESTION, "--kb", "Handbook", "--as", "bob", "--written", "--model", endpoint.uid, "--json")
    body = json.loads(capsys.readouterr().out)
    assert (body["state"], body["model"], body["code"]) == ("done", "demo", "")
    assert set(body["citations"]) <= {number for number, _ in enumerate(body["hits"], 1)}


def test_a_model_that_fails_leaves_the_passages_the_reason_and_an_exit_code(
    library: World, models: ModelServer
) -> None:
    chat_endpoint(models, "demo+fail=401", is_default=True)
    out = StringIO()
    with pytest.raises(CommandError) as failed:
        call_command("ask", QUESTION, "--kb", "Handbook", "--as", "bob", "--written", stdout=out, stderr=StringIO())
    assert "key" in str(failed.value)
    assert "ten days of annual leave" in out.getvalue()


def test_without_a_chat_model_the_passages_answer_and_it_is_said(library: World) -> None:
    text, said, _ = ask()
    assert "[1] " in text
    assert "No chat model has been set up yet" in said
