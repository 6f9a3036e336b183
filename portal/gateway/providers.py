"""Who provides models, and how each is reached: a new provider is a row of `PROVIDERS`.

The wire formats themselves are LiteLLM's; this says under which of its names a provider goes, where it lives
unless an endpoint says otherwise, and how its list of models is asked for. Doubao, Wenxin and Yuanbao speak
OpenAI's format at addresses of their own (Volcengine Ark, Baidu Qianfan v2, Tencent Hunyuan).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from portal.gateway.models import ModelEndpoint
from portal.kernel.errors import Invalid

Name = ModelEndpoint.Provider
CHAT, EMBEDDING, RERANK = (kind.value for kind in ModelEndpoint.Kind)

# What a person may set for every request of an endpoint, and its range.
PARAMETERS: dict[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "seed": (0, 2**31),
}


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider. `litellm` gives LiteLLM's name by kind; a kind that is missing is not offered.

    `client` is what LiteLLM takes to reach it: OpenAI's client, or its own around httpx. `key_header` is how a
    list of models is asked for. `own_url` means that an endpoint must name its base URL.
    """

    litellm: Mapping[str, str]
    base_url: str = ""
    client: Literal["openai", "http"] = "openai"
    models_path: str = "/models"
    key_header: str = "Authorization"
    headers: Mapping[str, str] = field(default_factory=dict)
    always: Mapping[str, Any] = field(default_factory=dict)

    @property
    def own_url(self) -> bool:
        return not self.base_url


_OPENAI = {CHAT: "openai", EMBEDDING: "openai"}

PROVIDERS: dict[str, Provider] = {
    Name.OPENAI: Provider(_OPENAI, "https://api.openai.com/v1"),
    Name.ANTHROPIC: Provider(
        {CHAT: "anthropic"},
        "https://api.anthropic.com",
        client="http",
        models_path="/v1/models",
        key_header="x-api-key",
        headers={"anthropic-version": "2023-06-01"},
    ),
    Name.GEMINI: Provider(
        {CHAT: "gemini", EMBEDDING: "gemini"},
        "https://generativelanguage.googleapis.com/v1beta",
        client="http",
        key_header="x-goog-api-key",
    ),
    Name.DOUBAO: Provider(
        # LiteLLM's row for Volcengine does not know that Ark takes a response format.
        {CHAT: "volcengine", EMBEDDING: "openai"},
        "https://ark.cn-beijing.volces.com/api/v3",
        always={"allowed_openai_params": ["response_format", "parallel_tool_calls"]},
    ),
    Name.WENXIN: Provider(_OPENAI, "https://qianfan.baidubce.com/v2"),
    Name.YUANBAO: Provider(_OPENAI, "https://api.hunyuan.cloud.tencent.com/v1"),
    # vLLM, Xinference and most gateways answer `/rerank` in Cohere's shape.
    Name.OPENAI_COMPATIBLE: Provider({**_OPENAI, RERANK: "hosted_vllm"}),
    Name.COHERE: Provider({RERANK: "cohere"}, "https://api.cohere.com", client="http", models_path="/v1/models"),
    Name.JINA: Provider({RERANK: "jina_ai"}, "https://api.jina.ai", client="http", models_path="/v1/models"),
    Name.TEI: Provider({RERANK: "huggingface"}, client="http", models_path="/info"),
    Name.ARCHWAY: Provider(_OPENAI),
    # Its address is written down by the supervisor; see `addresses.base_url`.
    Name.DEMO: Provider({CHAT: "openai", EMBEDDING: "openai", RERANK: "hosted_vllm"}, "demo"),
}


def provider_of(endpoint: ModelEndpoint) -> Provider:
    """The row of the table for this endpoint. Raises `Invalid` (provider_mismatch) when it offers no such kind."""
    provider = PROVIDERS.get(endpoint.provider)
    if provider is None or endpoint.kind not in provider.litellm:
        raise Invalid(
            "%(provider)s offers no models of the kind %(kind)s.",
            code="provider_mismatch",
            provider=endpoint.get_provider_display(),
            kind=endpoint.get_kind_display(),
        )
    return provider


def litellm_name(endpoint: ModelEndpoint) -> str:
    """LiteLLM's name of an endpoint's model, its provider first: `anthropic/claude-…`."""
    return f"{provider_of(endpoint).litellm[endpoint.kind]}/{endpoint.model_name}"


def checked_parameters(values: Any) -> dict[str, Any]:
    """The parameters of an endpoint as they may be sent. Raises `Invalid` (parameters_invalid)."""
    if not isinstance(values, Mapping):
        raise Invalid('Parameters are written as {"temperature": 0.2}.', code="parameters_invalid")
    for name, value in values.items():
        low, high = PARAMETERS.get(name, (0, 0))
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name not in PARAMETERS or not number or not low <= value <= high:
            raise Invalid(
                "The parameter %(name)s is not known, or its value is out of range.",
                code="parameters_invalid",
                name=name,
            )
    return dict(values)
