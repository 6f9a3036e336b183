"""Addresses of asking: the hit test of a base, the ask page and its threads."""

from __future__ import annotations

from django.urls import path

from knowledge.pages import answers, ask, hit_test

urlpatterns = [
    path("bases/<str:base>/hit-test/", hit_test.hit_test, name="hit-test"),
    path("bases/<str:base>/hit-test/columns/", hit_test.column, name="hit-test-column"),
    path("bases/<str:base>/hit-test/<str:run>/", hit_test.saved_run, name="hit-test-run"),
    path("ask/", ask.ask, name="ask"),
    path("ask/<str:thread>/", ask.saved_thread, name="thread"),
    path("ask/<str:thread>/delete/", ask.delete, name="thread-delete"),
    path("ask/<str:thread>/restore/", ask.restore, name="thread-restore"),
    path("ask/<str:thread>/<str:record>/", answers.turn, name="thread-turn"),
    path("ask/<str:thread>/<str:record>/events/", answers.events, name="thread-events"),
    path("ask/<str:thread>/<str:record>/stop/", answers.stop, name="thread-stop"),
    path("ask/<str:thread>/<str:record>/rate/", ask.rate, name="thread-rate"),
]
