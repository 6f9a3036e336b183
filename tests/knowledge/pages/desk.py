"""People at their browsers, and files to send."""

from __future__ import annotations

from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from portal.kernel.models import User


def browser(user: User) -> Client:
    """A signed-in browser of a person who reads English."""
    client = Client()
    client.force_login(user)
    client.cookies["django_language"] = "en"
    return client


def a_file(name: str, data: str | bytes) -> SimpleUploadedFile:
    return SimpleUploadedFile(name, data.encode() if isinstance(data, str) else data)


def text_of(response: Any) -> str:
    """The body of a page or fragment."""
    return str(response.content.decode())
