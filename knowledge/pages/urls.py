"""Addresses of the pages of one base, mounted at the root."""

from __future__ import annotations

from django.urls import path

from knowledge.pages import (
    adding_pages,
    archive_pages,
    batch_pages,
    chunk_urls,
    document_actions,
    document_list,
    evaluation_urls,
    generation_pages,
    member_pages,
    model_pages,
    page_pictures,
    reader,
    revision_pages,
    setting_pages,
    source_pages,
    tag_pages,
    term_pages,
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
    path(f"{_DOCUMENTS}upload/discard/", uploads.discard, name="upload-discard"),
    path(f"{_DOCUMENTS}paste/", adding_pages.paste, name="paste"),
    path(f"{_BASE}question-sheets/", adding_pages.questions, name="questions"),
    path("question-sheet/", adding_pages.question_template, name="question-template"),
    path(f"{_BASE}generate/", generation_pages.generate, name="generate"),
    path(f"{_BASE}generate/stop/", generation_pages.stop, name="generate-stop"),
    path(f"{_BASE}generate/questions/<str:question>/", generation_pages.review, name="generate-review"),
    path(f"{_BASE}sources/", source_pages.sources, name="sources"),
    path(f"{_BASE}sources/new/", source_pages.new_source, name="source-new"),
    path(f"{_BASE}sources/<str:source>/", source_pages.source_page, name="source"),
    path(f"{_BASE}sources/<str:source>/settings/", source_pages.source_settings, name="source-settings"),
    *[path(f"{_BASE}sources/<str:source>/{verb}/", source_pages.act, {"verb": verb}) for verb in source_pages.VERBS],
    path(f"{_DOCUMENTS}bulk/", batch_pages.bulk, name="documents-bulk"),
    path(f"{_DOCUMENTS}restore/", batch_pages.restore, name="documents-restore"),
    path(f"{_BASE}batches/", batch_pages.batch_list, name="batches"),
    path(f"{_BASE}batches/<str:batch>/", batch_pages.batch_page, name="batch"),
    *[
        path(f"{_BASE}batches/<str:batch>/{verb}/", batch_pages.act_on_batch, {"verb": verb})
        for verb in batch_pages.BATCH_VERBS
    ],
    path(f"{_BASE}terms/", term_pages.terms, name="terms"),
    path(f"{_BASE}terms/change/", term_pages.change, name="terms-change"),
    path(f"{_BASE}terms/import/", term_pages.take_over, name="terms-import"),
    path(f"{_BASE}terms/sheet/", term_pages.sheet, name="terms-sheet"),
    path(f"{_BASE}tags/", tag_pages.tags, name="tags"),
    path(f"{_BASE}tags/change/", tag_pages.change, name="tags-change"),
    path(f"{_BASE}archive/", archive_pages.exports, name="archive"),
    path(f"{_BASE}archive/<str:archive>/file/", archive_pages.download, name="archive-file"),
    path(f"{_BASE}archive/<str:archive>/cancel/", archive_pages.cancel_export, name="archive-cancel"),
    path(f"{_BASE}archive/<str:archive>/delete/", archive_pages.delete_export, name="archive-delete"),
    path("imports/", archive_pages.imports, name="imports"),
    path("imports/discard/", archive_pages.discard_upload, name="import-discard"),
    path("imports/<str:archive>/cancel/", archive_pages.cancel_import, name="import-cancel"),
    path(f"{_BASE}recycle-bin/", document_list.recycle_bin, name="recycle-bin"),
    path(f"{_BASE}recycle-bin/<str:document>/purge/", document_list.purge, name="document-purge"),
    path(f"{_BASE}members/", member_pages.members, name="members"),
    path(f"{_BASE}members/add/", member_pages.add, name="member-add"),
    path(f"{_BASE}members/candidates/", member_pages.candidates, name="member-candidates"),
    path(f"{_BASE}members/<int:grant>/change/", member_pages.change, name="member-change"),
    path(f"{_BASE}members/<int:grant>/remove/", member_pages.remove, name="member-remove"),
    path(f"{_BASE}settings/", setting_pages.settings_page, name="base-settings"),
    path(f"{_BASE}settings/model/", model_pages.change_model, name="base-model"),
    path(f"{_BASE}settings/model/stop/", model_pages.stop_model_change, name="base-model-stop"),
    path(f"{_BASE}settings/delete/", setting_pages.delete_base, name="base-delete"),
    path(_DOCUMENT, reader.reader, name="document"),
    path(f"{_DOCUMENT}row/", document_list.document_row, name="document-row"),
    path(f"{_DOCUMENT}text/", adding_pages.edit_text, name="document-text"),
    path(f"{_DOCUMENT}original/", reader.original, name="document-original"),
    path(f"{_DOCUMENT}images/<str:key>/", reader.image, name="document-image"),
    path(f"{_DOCUMENT}pages/<int:number>.png", page_pictures.page_picture, name="document-page"),
    *chunk_urls.urlpatterns,
    *evaluation_urls.urlpatterns,
    path(f"{_DOCUMENT}revisions/", revision_pages.revisions, name="document-revisions"),
    path(f"{_DOCUMENT}revisions/<int:number>/compare/", revision_pages.compare_revision, name="revision-compare"),
    *[
        path(f"{_DOCUMENT}revisions/<int:number>/{verb}/", revision_pages.act_on_revision, {"verb": verb})
        for verb in revision_pages.VERBS
    ],
    path(f"{_DOCUMENT}describe/", revision_pages.describe, name="document-describe"),
    *[path(f"{_DOCUMENT}{verb}/", document_actions.act, {"verb": verb}) for verb in document_actions.VERBS],
]
