"""Whether text can be recognised on this machine: the optional extra `ocr`."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

PACKAGES = ("rapidocr", "cv2", "PIL")


@cache
def is_installed() -> bool:
    """Whether the extra `ocr` is there; nothing of it is imported."""
    return all(find_spec(name) is not None for name in PACKAGES)


def installed_version() -> str:
    """The recogniser's name and version, or "" without the extra."""
    try:
        return f"rapidocr {version('rapidocr')}" if is_installed() else ""
    except PackageNotFoundError:
        return ""
