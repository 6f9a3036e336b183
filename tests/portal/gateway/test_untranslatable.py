"""Embeddings and reranking: what never left is refused, what does not arrive is unreachable, every call is judged."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from portal.gateway.models import ModelEndpoint
from portal.gateway.provider_embedding import ProviderEmbedder
from portal.gateway.rerank import reranker_for
from portal.kernel.errors import ArchwayError
from tests.support.model_server import ModelServer
from tests.support.models import endpoint

pytestmark = pytest.mark.django_db

EMBEDDING = ("openai", "gemini", "doubao", "wenxin", "yuanbao", "openai_compatible")
RERANK = ("cohere", "jina", "tei", "openai_compatible")
EVERY = [*((name, "embedding") for name in EMBEDDING), *((name, "rerank") for name in RERANK)]
# A port of loopback that nobody listens on.
NOBODY = "http://127.0.0.1:9"


def asked(of: ModelEndpoint, text: str = "a") -> str:
    """The code of the failure; empty when there is an answer."""
    try:
        if of.kind == "rerank":
            reranker_for(of).rerank("q", [text])
        else:
            ProviderEmbedder(of, space="s", dimensions=0)._ask([text])
    except ArchwayError as error:
        return error.code
    return ""


@pytest.mark.parametrize(("provider", "kind"), EVERY)
def test_who_is_away_is_unreachable(litellm_loaded: None, provider: str, kind: str) -> None:
    assert asked(endpoint(NOBODY, "demo", provider=provider, kind=kind)) == "model_unreachable"


@pytest.mark.parametrize(("provider", "kind"), EVERY)
def test_an_address_inside_is_never_asked(models: ModelServer, settings: Settings, provider: str, kind: str) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "EGRESS_ALLOW": []}
    assert asked(endpoint(models, "demo", provider=provider, kind=kind)) == "url_forbidden"
    assert not models.seen


@pytest.mark.parametrize("provider", [name for name in EMBEDDING if name != "gemini"])
def test_a_text_that_can_not_be_written_is_refused_and_not_sent(models: ModelServer, provider: str) -> None:
    """Half a character, which no UTF-8 holds; `ProviderEmbedder` itself mends it before."""
    assert asked(endpoint(models, "demo", provider=provider, kind="embedding"), "\ud800") == "model_refused"
    assert not models.seen


@pytest.mark.parametrize(("provider", "kind"), EVERY)
def test_parameters_that_can_not_be_translated_open_nobodys_breaker(
    models: ModelServer, monkeypatch: pytest.MonkeyPatch, provider: str, kind: str
) -> None:
    import litellm

    async def broken(**_: object) -> None:
        raise litellm.exceptions.APIConnectionError("can not be translated", provider, "demo")

    monkeypatch.setattr(litellm, "arerank" if kind == "rerank" else "aembedding", broken)
    one = endpoint(models, "demo", provider=provider, kind=kind)
    assert [asked(one) for _ in range(6)] == ["model_refused"] * 6
    monkeypatch.undo()
    assert asked(one) == ""
