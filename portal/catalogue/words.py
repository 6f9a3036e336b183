"""A message that people may read, and where messages are looked for."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

SOURCES = ("portal", "knowledge", "channels_app", "agents", "mcpserver")
LANGUAGE = "zh_Hans"


@dataclass(frozen=True, slots=True, order=True)
class Message:
    """A message id with its context and plural ("" when it has none)."""

    text: str
    context: str = ""
    plural: str = ""

    @property
    def key(self) -> str:
        """How .mo files name it."""
        return f"{self.context}\x04{self.text}" if self.context else self.text


def po_path() -> Path:
    """The catalogue's source; the compiled file lies beside it."""
    return Path(settings.BASE_DIR) / "locale" / LANGUAGE / "LC_MESSAGES" / "django.po"


def python_files() -> list[Path]:
    """Our modules, migrations left out: their words stand in the models."""
    root = Path(settings.BASE_DIR)
    return sorted(
        path
        for name in SOURCES
        for path in (root / name).rglob("*.py")
        if "migrations" not in path.relative_to(root).parts
    )


def template_files() -> list[Path]:
    """Our templates."""
    return sorted((Path(settings.BASE_DIR) / "templates").rglob("*.html"))


def unfold_files() -> tuple[list[Path], list[Path]]:
    """(modules, templates) of django-unfold, which brings no translations of its own words."""
    spec = importlib.util.find_spec("unfold")
    if spec is None or spec.origin is None:
        return [], []
    root = Path(spec.origin).parent
    return sorted(root.rglob("*.py")), sorted((root / "templates").rglob("*.html"))
