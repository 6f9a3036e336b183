"""Addresses of the pages about a document's chunks: list, verbs, preview of another split, reviews of a base."""

from __future__ import annotations

from django.urls import path

from knowledge.pages import chunk_actions, chunk_pages, preview_pages, question_actions, review_pages

_DOCUMENT = "bases/<str:base>/documents/<str:document>/"
_CHUNKS = f"{_DOCUMENT}chunks/"

urlpatterns = [
    path("bases/<str:base>/review/", review_pages.review, name="review"),
    path(_CHUNKS, chunk_pages.chunks, name="document-chunks"),
    path(f"{_CHUNKS}preview/", preview_pages.preview_page, name="document-preview"),
    *[path(f"{_CHUNKS}{verb}/", chunk_pages.decide, {"verb": verb}) for verb in chunk_pages.VERBS],
    *[
        path(f"{_CHUNKS}<int:chunk>/{verb}/", chunk_actions.act, {"verb": verb}, name=f"chunk-{verb}")
        for verb in chunk_actions.VERBS
    ],
    path(f"{_CHUNKS}<int:chunk>/questions/", question_actions.act, name="chunk-questions"),
    path(f"{_DOCUMENT}revisions/<int:number>/undo/", chunk_actions.undo, name="chunk-undo"),
    path(f"{_DOCUMENT}revisions/<int:number>/add-first/", chunk_actions.add_first, name="chunk-add-first"),
]
