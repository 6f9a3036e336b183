"""Addresses of the portal's own pages; the pages of one base stand in `knowledge/pages/urls.py`."""

from __future__ import annotations

from django.urls import path

from portal.pages import bases, choices, home, keys, notifications, preferences, probes, search, sign_in, tasks

urlpatterns = [
    path("", home.home, name="home"),
    path("shell-counts/", home.shell_counts, name="shell-counts"),
    path("sign-in/", sign_in.sign_in, name="sign-in"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
    path("language/", choices.language, name="language"),
    path("theme/", choices.theme, name="theme"),
    path("workspace/", choices.workspace, name="workspace"),
    path("search/", search.search, name="search"),
    path("bases/", bases.bases, name="bases"),
    path("bases/new/", bases.new_base, name="base-new"),
    path("tasks/", tasks.tasks, name="tasks"),
    path("tasks/retry/", tasks.retry_many, name="tasks-retry"),
    path("tasks/<str:uid>/", tasks.task, name="task"),
    path("tasks/<str:uid>/retry/", tasks.retry_one, name="task-retry"),
    path("tasks/<str:uid>/cancel/", tasks.cancel, name="task-cancel"),
    path("notifications/", notifications.notifications, name="notifications"),
    path("notifications/read/", notifications.read_all, name="notifications-read"),
    path("notifications/<str:uid>/", notifications.follow, name="notification"),
    path("account/keys/", keys.keys, name="keys"),
    path("account/keys/new/", keys.new_key, name="key-new"),
    path("account/keys/<str:uid>/revoke/", keys.revoke, name="key-revoke"),
    path("account/preferences/", preferences.preferences, name="preferences"),
    path("account/password/", preferences.password, name="password"),
    path("favicon.ico", probes.favicon, name="favicon"),
    path("healthz", probes.healthz, name="healthz"),
    path("readyz", probes.readyz, name="readyz"),
]
