"""Everything under /v1/. A trailing slash is optional everywhere."""

from __future__ import annotations

from django.urls import path, re_path

from portal.openai_api.completions import completions
from portal.openai_api.embeddings import embeddings
from portal.openai_api.model_list import models, one_model, unknown

urlpatterns = [
    re_path(r"^chat/completions/?$", completions, name="openai-chat-completions"),
    re_path(r"^embeddings/?$", embeddings, name="openai-embeddings"),
    re_path(r"^models/?$", models, name="openai-models"),
    re_path(r"^models/(?P<model>.+?)/?$", one_model, name="openai-model"),
    path("<path:path>", unknown, name="openai-unknown"),
]
