"""Uploads a document of many sections on servers of a test's own: `python -m tests.support.uploading MODEL_URL NAME`.

The test's own process stays with the database of the run; this one works on what `DATABASE_URL` names.
"""

from __future__ import annotations

import sys

import django


def main(url: str, name: str) -> None:
    django.setup()
    from knowledge.models import KnowledgeBase
    from portal.kernel.models import User
    from portal.kernel.principal import for_user
    from tests.support.people import make_world, put
    from tests.support.slow_model import embed_with, rules

    if not User.objects.filter(username="alice").exists():
        embed_with(url, make_world().base)
    alice = for_user(User.objects.get(username="alice"), door="web")
    revision = put(alice, KnowledgeBase.objects.get(name="Handbook"), f"{name}.md", rules(2_000, name)).revision
    assert revision is not None
    sys.stdout.write(str(revision.pk))


if __name__ == "__main__":
    main(*sys.argv[1:])
