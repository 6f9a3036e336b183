"""Everything under /api/v1/. A trailing slash is optional everywhere."""

from __future__ import annotations

from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.routers import SimpleRouter

from portal.api import views
from portal.api.credentials import CredentialViewSet
from portal.api.endpoint_tests import EndpointTestView
from portal.api.kept_answers import KeptAnswersView

router = SimpleRouter()
router.trailing_slash = "/?"
router.register("keys", views.KeyViewSet, basename="api-key")
router.register("departments", views.DepartmentViewSet, basename="api-department")
router.register("members", views.MemberViewSet, basename="api-member")

urlpatterns = [
    re_path(r"^health/?$", views.HealthView.as_view(), name="api-health"),
    re_path(r"^me/?$", views.MeView.as_view(), name="api-me"),
    re_path(
        r"^notifications/?$",
        views.NotificationView.as_view({"get": "list", "post": "mark_read"}),
        name="api-notifications",
    ),
    re_path(r"^endpoints/?$", views.EndpointView.as_view({"get": "list"}), name="api-endpoints"),
    re_path(r"^endpoints/(?P<endpoint>[^/.]+)/test/?$", EndpointTestView.as_view(), name="api-endpoint-test"),
    re_path(r"^credentials/?$", CredentialViewSet.as_view({"get": "list", "post": "create"}), name="api-credentials"),
    re_path(
        r"^credentials/(?P<credential>[^/.]+)/?$",
        CredentialViewSet.as_view({"get": "retrieve", "patch": "partial_update", "delete": "destroy"}),
        name="api-credential",
    ),
    *(
        re_path(
            rf"^credentials/(?P<credential>[^/.]+)/{verb}/?$",
            CredentialViewSet.as_view({"post": verb}),
            name=f"api-credential-{verb}",
        )
        for verb in ("reseal", "check", "expose")
    ),
    re_path(r"^kept-answers/?$", KeptAnswersView.as_view(), name="api-kept-answers"),
    re_path(r"^people/?$", views.PeopleView.as_view({"get": "list"}), name="api-people"),
    re_path(r"^audit/?$", views.AuditView.as_view({"get": "list"}), name="api-audit"),
    re_path(r"^schema/?$", SpectacularAPIView.as_view(), name="api-schema"),
    re_path(r"^docs/?$", SpectacularSwaggerSplitView.as_view(url_name="api-schema"), name="api-docs"),
    *router.urls,
    path("", include("knowledge.api.urls")),
]
