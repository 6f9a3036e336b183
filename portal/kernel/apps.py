from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class KernelConfig(AppConfig):
    name = "portal.kernel"
    label = "kernel"
    verbose_name = _("People and workspaces")

    def ready(self) -> None:
        from portal.kernel import openapi  # noqa: F401  (registers the security schemes)

        _admit_long_file_names()


def _admit_long_file_names() -> None:
    """A file name of 300 Chinese characters does not fit the 1,024 bytes that Django grants the head of a form part."""
    from django.http import multipartparser

    setattr(multipartparser, "MAX_TOTAL_HEADER_SIZE", 16 * 1024)  # noqa: B010 (the stubs do not know it)
