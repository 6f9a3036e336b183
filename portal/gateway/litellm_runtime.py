"""How LiteLLM is brought in: late, offline and quiet. It costs seconds and 200 MB, so nobody imports it otherwise."""

from __future__ import annotations

import copy
import importlib
import os
from functools import cache, partial
from typing import Any


@cache
def load() -> Any:
    """The `litellm` module, set up for us."""
    # Without it the import fetches a price list from the network.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    # Proxies of the environment are not for addresses that people gave: they would be judged, and others reached.
    litellm.disable_aiohttp_trust_env = True
    # Whether to try again is decided by those who know the deadline. `max_retries=0` in a call would be
    # taken for "not given" and replaced by this default.
    litellm.DEFAULT_MAX_RETRIES = 0
    _hand_on_client(importlib.import_module("litellm.main"))
    return litellm


def _hand_on_client(main: Any) -> None:
    """LiteLLM asks Gemini for embeddings with a client of its own, past the judge of addresses, whatever it is given.

    (`GoogleBatchEmbeddings.batch_embeddings` of 1.110 leaves `client` out where it goes on in asyncio.)
    """
    gemini = main.google_batch_embeddings
    kind = type(gemini)

    def batch_embeddings(**given: Any) -> Any:
        one = copy.copy(gemini)
        one.async_batch_embeddings = partial(gemini.async_batch_embeddings, client=given.get("client"))
        return kind.batch_embeddings(one, **given)

    gemini.batch_embeddings = batch_embeddings


def loaded() -> bool:
    """Whether `load` has been called and costs nothing now."""
    return load.cache_info().currsize > 0
