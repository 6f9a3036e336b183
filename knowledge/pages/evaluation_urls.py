"""Addresses of the evaluation of a base."""

from __future__ import annotations

from django.urls import path

from knowledge.pages import evaluation_cases, evaluation_pages

_HOME = "bases/<str:base>/evaluation/"
_RUN = f"{_HOME}<str:evaluation>/"

urlpatterns = [
    path(_HOME, evaluation_pages.evaluation, name="evaluation"),
    path(f"{_HOME}cases/", evaluation_cases.case_list, name="evaluation-cases"),
    path(f"{_HOME}cases/upload/", evaluation_cases.upload, name="evaluation-upload"),
    path(f"{_HOME}cases/from-hit/", evaluation_cases.save_hit, name="evaluation-from-hit"),
    path(f"{_HOME}cases/<str:case>/change/", evaluation_cases.change, name="evaluation-case-change"),
    path(f"{_HOME}unanswered/", evaluation_cases.unanswered_list, name="unanswered"),
    path(_RUN, evaluation_pages.run_page, name="evaluation-run"),
    path(f"{_RUN}cancel/", evaluation_pages.cancel, name="evaluation-cancel"),
    path(f"{_RUN}decide/", evaluation_pages.decide, name="evaluation-decide"),
    path(f"{_RUN}cases/<str:case>/", evaluation_pages.case_page, name="evaluation-case"),
    path("ask/<str:thread>/<str:record>/case/", evaluation_cases.save_rated, name="thread-case"),
]
