"""Addresses of the evaluation API, under /api/v1/. A trailing slash is optional everywhere."""

from __future__ import annotations

from django.urls import re_path

from knowledge.api.evaluation import CaseFileView, CasesView, CaseView, RunsView, RunView, UnansweredView

_BASE = r"^bases/(?P<base>[^/]+)"
_RUN = r"^evaluations/(?P<evaluation>[^/]+)"

urlpatterns = [
    re_path(rf"{_BASE}/cases/?$", CasesView.as_view({"get": "list", "post": "create"}), name="api-cases"),
    re_path(rf"{_BASE}/cases/file/?$", CaseFileView.as_view(), name="api-case-file"),
    re_path(r"^cases/(?P<case>[^/]+)/?$", CaseView.as_view(), name="api-case"),
    re_path(rf"{_BASE}/evaluations/?$", RunsView.as_view({"get": "list", "post": "create"}), name="api-evaluations"),
    re_path(rf"{_RUN}/?$", RunView.as_view({"get": "retrieve"}), name="api-evaluation"),
    re_path(rf"{_RUN}/results/?$", RunView.as_view({"get": "results"}), name="api-evaluation-results"),
    re_path(rf"{_RUN}/cancel/?$", RunView.as_view({"post": "cancel"}), name="api-evaluation-cancel"),
    re_path(rf"{_RUN}/decide/?$", RunView.as_view({"post": "decide"}), name="api-evaluation-decide"),
    re_path(rf"{_BASE}/unanswered/?$", UnansweredView.as_view(), name="api-unanswered"),
]
