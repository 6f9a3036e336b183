"""Addresses of the knowledge API, under /api/v1/. A trailing slash is optional everywhere."""

from __future__ import annotations

from django.urls import re_path
from rest_framework.routers import SimpleRouter

from knowledge.api import evaluation_urls
from knowledge.api.answers import AskView
from knowledge.api.archives import ArchiveView, EstimateView, ExportsView, ImportsView
from knowledge.api.bases import BaseViewSet
from knowledge.api.batches import BatchesView, BatchView, TagsView
from knowledge.api.chunks import (
    ChunkViewSet,
    EditsView,
    PreviewView,
    ResplitView,
    ReviewView,
    RevisionChunksView,
    UndoView,
)
from knowledge.api.documents import (
    BaseDocumentsView,
    DocumentViewSet,
    ImageView,
    RecycleBinView,
    RevisionViewSet,
    TasksView,
)
from knowledge.api.generations import GenerationView
from knowledge.api.model_changes import ModelChangeView
from knowledge.api.search import SearchView
from knowledge.api.sources import (
    BaseSourcesView,
    QuestionSheetsView,
    QuestionTemplateView,
    SourceViewSet,
    TextsView,
)
from knowledge.api.terms import (
    ChunkQuestionSheetsView,
    ChunkQuestionsView,
    QuestionView,
    TermSheetsView,
    TermsView,
    TermView,
)
from knowledge.api.uploads import ArchiveUploadsView, BaseUploadsView, UploadView

router = SimpleRouter()
router.trailing_slash = "/?"
router.register("bases", BaseViewSet, basename="api-base")
router.register("documents", DocumentViewSet, basename="api-document")
router.register("sources", SourceViewSet, basename="api-source")
router.register("revisions", RevisionViewSet, basename="api-revision")
router.register("chunks", ChunkViewSet, basename="api-chunk")

urlpatterns = [
    re_path(
        r"^bases/(?P<base>[^/]+)/documents/?$",
        BaseDocumentsView.as_view({"get": "list", "post": "create"}),
        name="api-base-documents",
    ),
    re_path(r"^bases/(?P<base>[^/]+)/generations/?$", GenerationView.as_view(), name="api-base-generations"),
    re_path(r"^bases/(?P<base>[^/]+)/texts/?$", TextsView.as_view(), name="api-base-texts"),
    re_path(
        r"^bases/(?P<base>[^/]+)/question-sheets/?$", QuestionSheetsView.as_view(), name="api-base-question-sheets"
    ),
    re_path(r"^question-sheet-template/?$", QuestionTemplateView.as_view(), name="api-question-template"),
    re_path(
        r"^bases/(?P<base>[^/]+)/sources/?$",
        BaseSourcesView.as_view({"get": "list", "post": "create"}),
        name="api-base-sources",
    ),
    re_path(r"^bases/(?P<base>[^/]+)/uploads/?$", BaseUploadsView.as_view(), name="api-base-uploads"),
    re_path(r"^uploads/(?P<upload>[^/]+)/?$", UploadView.as_view(), name="api-upload"),
    re_path(
        r"^bases/(?P<base>[^/]+)/batches/?$",
        BatchesView.as_view({"get": "list", "post": "create"}),
        name="api-base-batches",
    ),
    re_path(r"^batches/(?P<batch>[^/]+)/?$", BatchView.as_view({"get": "retrieve"}), name="api-batch"),
    re_path(r"^batches/(?P<batch>[^/]+)/items/?$", BatchView.as_view({"get": "items"}), name="api-batch-items"),
    *[
        re_path(rf"^batches/(?P<batch>[^/]+)/{verb}/?$", BatchView.as_view({"post": verb}), name=f"api-batch-{verb}")
        for verb in ("cancel", "undo", "again")
    ],
    re_path(r"^bases/(?P<base>[^/]+)/terms/?$", TermsView.as_view(), name="api-terms"),
    re_path(r"^bases/(?P<base>[^/]+)/terms/(?P<term>[^/]+)/?$", TermView.as_view(), name="api-term"),
    re_path(r"^bases/(?P<base>[^/]+)/term-sheets/?$", TermSheetsView.as_view(), name="api-term-sheets"),
    re_path(
        r"^bases/(?P<base>[^/]+)/chunk-question-sheets/?$",
        ChunkQuestionSheetsView.as_view(),
        name="api-chunk-question-sheets",
    ),
    re_path(r"^chunks/(?P<chunk>[^/]+)/questions/?$", ChunkQuestionsView.as_view(), name="api-chunk-questions"),
    re_path(r"^questions/(?P<question>[^/]+)/?$", QuestionView.as_view(), name="api-question"),
    re_path(r"^bases/(?P<base>[^/]+)/tags/?$", TagsView.as_view(), name="api-tags"),
    re_path(
        r"^bases/(?P<base>[^/]+)/exports/?$",
        ExportsView.as_view({"get": "list", "post": "create"}),
        name="api-exports",
    ),
    re_path(r"^bases/(?P<base>[^/]+)/exports/estimate/?$", EstimateView.as_view(), name="api-export-estimate"),
    re_path(r"^imports/uploads/?$", ArchiveUploadsView.as_view(), name="api-import-uploads"),
    re_path(r"^imports/?$", ImportsView.as_view({"get": "list", "post": "create"}), name="api-imports"),
    re_path(
        r"^archives/(?P<archive>[^/]+)/?$",
        ArchiveView.as_view({"get": "retrieve", "delete": "destroy"}),
        name="api-archive",
    ),
    re_path(r"^archives/(?P<archive>[^/]+)/file/?$", ArchiveView.as_view({"get": "file"}), name="api-archive-file"),
    re_path(
        r"^archives/(?P<archive>[^/]+)/cancel/?$", ArchiveView.as_view({"post": "cancel"}), name="api-archive-cancel"
    ),
    re_path(r"^bases/(?P<base>[^/]+)/recycle-bin/?$", RecycleBinView.as_view({"get": "list"}), name="api-recycle-bin"),
    re_path(
        r"^recycle-bin/(?P<document>[^/]+)/restore/?$",
        RecycleBinView.as_view({"post": "restore"}),
        name="api-document-restore",
    ),
    re_path(
        r"^recycle-bin/(?P<document>[^/]+)/?$", RecycleBinView.as_view({"delete": "purge"}), name="api-document-purge"
    ),
    re_path(r"^bases/(?P<base>[^/]+)/model-change/?$", ModelChangeView.as_view(), name="api-model-change"),
    re_path(r"^bases/(?P<base>[^/]+)/search/?$", SearchView.as_view(), name="api-base-search"),
    re_path(r"^revisions/(?P<revision>[^/]+)/images/(?P<key>[0-9a-f]{64})/?$", ImageView.as_view(), name="api-image"),
    re_path(r"^search/?$", SearchView.as_view(), name="api-search"),
    re_path(r"^ask/?$", AskView.as_view(), name="api-ask"),
    re_path(r"^tasks/?$", TasksView.as_view({"get": "list"}), name="api-tasks"),
    re_path(r"^bases/(?P<base>[^/]+)/review/?$", ReviewView.as_view(), name="api-review"),
    re_path(r"^documents/(?P<document>[^/]+)/edits/?$", EditsView.as_view(), name="api-document-edits"),
    re_path(r"^revisions/(?P<revision>[^/]+)/preview/?$", PreviewView.as_view(), name="api-preview"),
    re_path(r"^revisions/(?P<revision>[^/]+)/resplit/?$", ResplitView.as_view(), name="api-resplit"),
    re_path(r"^revisions/(?P<revision>[^/]+)/passages/?$", RevisionChunksView.as_view(), name="api-passages"),
    re_path(r"^revisions/(?P<revision>[^/]+)/undo/?$", UndoView.as_view(), name="api-undo"),
    *evaluation_urls.urlpatterns,
    *router.urls,
]
