"""Addresses of the pages of one base, mounted at the root."""

from __future__ import annotations

from django.urls import path

from knowledge.pages import (
    chunk_pages,
    document_actions,
    document_list,
    member_pages,
    page_pictures,
    reader,
    revision_pages,
    setting_pages,
    uploads,
)

_BASE = "bases/<str:base>/"
_DOCUMENTS = f"{_BASE}documents/"
_DOCUMENT = f"{_DOCUMENTS}<str:document>/"

urlpatterns = [
    path(_BASE, document_list.base_home, name="base"),
    path(_DOCUMENTS, document_list.document_list, name="documents"),
    path(f"{_DOCUMENTS}upload/", uploads.upload, name="upload"),
    path(f"{_DOCUMENTS}upload/names/", uploads.names, name="upload-names"),
    path(f"{_DOCUMENTS}bulk/", document_actions.bulk, name="documents-bulk"),
    path(f"{_DOCUMENTS}restore/", document_list.restore, name="documents-restore"),
    path(f"{_BASE}recycle-bin/", document_list.recycle_bin, name="recycle-bin"),
    path(f"{_BASE}recycle-bin/<str:document>/purge/", document_list.purge, name="document-purge"),
    path(f"{_BASE}members/", member_pages.members, name="members"),
    path(f"{_BASE}members/add/", member_pages.add, name="member-add"),
    path(f"{_BASE}members/candidates/", member_pages.candidates, name="member-candidates"),
    path(f"{_BASE}members/<int:grant>/change/", member_pages.change, name="member-change"),
    path(f"{_BASE}members/<int:grant>/remove/", member_pages.remove, name="member-remove"),
    path(f"{_BASE}settings/", setting_pages.settings_page, name="base-settings"),
    path(f"{_BASE}settings/delete/", setting_pages.delete_base, name="base-delete"),
    path(_DOCUMENT, reader.reader, name="document"),
    path(f"{_DOCUMENT}row/", document_list.document_row, name="document-row"),
    path(f"{_DOCUMENT}original/", reader.original, name="document-original"),
    path(f"{_DOCUMENT}images/<str:key>/", reader.image, name="document-image"),
    path(f"{_DOCUMENT}pages/<int:number>.png", page_pictures.page_picture, name="document-page"),
    path(f"{_DOCUMENT}chunks/", chunk_pages.chunks, name="document-chunks"),
    *[path(f"{_DOCUMENT}chunks/{verb}/", chunk_pages.decide, {"verb": verb}) for verb in chunk_pages.VERBS],
    path(f"{_DOCUMENT}revisions/", revision_pages.revisions, name="document-revisions"),
    path(f"{_DOCUMENT}revisions/<int:number>/compare/", revision_pages.compare_revision, name="revision-compare"),
    *[
        path(f"{_DOCUMENT}revisions/<int:number>/{verb}/", revision_pages.act_on_revision, {"verb": verb})
        for verb in revision_pages.VERBS
    ],
    path(f"{_DOCUMENT}describe/", revision_pages.describe, name="document-describe"),
    *[path(f"{_DOCUMENT}{verb}/", document_actions.act, {"verb": verb}) for verb in document_actions.VERBS],
]
