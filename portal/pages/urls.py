"""Addresses of the portal's own pages; the pages of one base stand in `knowledge/pages/urls.py`."""

from __future__ import annotations

from django.urls import path

from portal.pages import home

urlpatterns = [
    path("", home.home, name="home"),
    path("shell-counts/", home.shell_counts, name="shell-counts"),
]
