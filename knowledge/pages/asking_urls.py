"""Addresses of asking: the hit test of a base, the ask page and its threads."""

from __future__ import annotations

from django.urls import path

from knowledge.pages import ask, hit_test

urlpatterns = [
    path("bases/<str:base_uid>/hit-test/", hit_test.hit_test, name="hit-test"),
    path("bases/<str:base_uid>/hit-test/columns/<str:mode>/", hit_test.column, name="hit-test-column"),
    path("bases/<str:base_uid>/hit-test/<str:uid>/", hit_test.run, name="hit-test-run"),
    path("ask/", ask.ask, name="ask"),
    path("ask/<str:uid>/", ask.thread, name="thread"),
    path("ask/<str:uid>/delete/", ask.delete, name="thread-delete"),
    path("ask/<str:uid>/restore/", ask.restore, name="thread-restore"),
    path("ask/<str:uid>/<str:record>/rate/", ask.rate, name="thread-rate"),
]
