"""Everything that needs a translation today, and what the catalogue lacks of it."""

from __future__ import annotations

import gettext
from pathlib import Path

import django

from portal.catalogue import files, python_words, template_words
from portal.catalogue.words import Message, po_path, python_files, template_files, unfold_files


def own_messages() -> set[Message]:
    """The messages of our templates, modules and error sentences."""
    return python_words.messages(python_files()) | template_words.messages(template_files())


def unfold_messages() -> set[Message]:
    """The messages of django-unfold that Django's own Chinese catalogues do not translate."""
    modules, templates = unfold_files()
    found = python_words.messages(modules) | template_words.messages(templates)
    known = _django_words()
    return {message for message in found if message.key not in known}


def _django_words() -> set[str]:
    root = Path(django.__file__).parent
    words: set[str] = set()
    for path in [root / "conf", *(root / "contrib").iterdir()]:
        compiled = path / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.mo"
        if compiled.exists():
            with compiled.open("rb") as stream:
                catalogue = gettext.GNUTranslations(stream)
            keys = getattr(catalogue, "_catalog", {})
            words |= {key if isinstance(key, str) else key[0] for key in keys}
    return words


def needed() -> set[Message]:
    """All messages that a page, an answer or the admin may show; one entry for an id, its plural one if any."""
    wanted = own_messages() | unfold_messages()
    plural_keys = {message.key for message in wanted if message.plural}
    return {message for message in wanted if message.plural or message.key not in plural_keys}


def update() -> tuple[dict[Message, str], list[Message]]:
    """Bring the .po up to date with the source; returns it, and the messages that want a translation."""
    known = files.read(po_path())
    by_key = {message.key: text for message, text in known.items()}
    catalogue = {message: known.get(message) or by_key.get(message.key, "") for message in needed()}
    return catalogue, sorted(message for message, text in catalogue.items() if not text)
