"""The vocabulary of a base: which tags there are, how they are spelt, renaming, merging, deleting.

Documents hold the names of their tags themselves (`Document.tags`), so that lists and searches filter without a
join; this module alone keeps names and vocabulary together. Two spellings that differ in case, width or
spaces are one tag: whoever comes first decides how it is written.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from knowledge import lifecycle
from knowledge.models import Document, KnowledgeBase, Tag
from portal.kernel import audit
from portal.kernel.errors import Conflict, Invalid, NotFound
from portal.kernel.principal import Principal

LONGEST, MOST = 60, 30
MOST_OF_BASE = 2_000
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@dataclass(frozen=True, slots=True)
class Used:
    """A tag with how many live documents have it."""

    name: str
    documents: int


def folded(name: str) -> str:
    """What two spellings of one tag have in common."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())[:200]


def clean(name: str) -> str:
    """A name as it is kept: no controls, single spaces; empty when nothing is left."""
    kept = "".join(" " if unicodedata.category(one) in _HIDDEN_CATEGORIES else one for one in name)
    return " ".join(kept.split())


def clean_many(names: Iterable[str]) -> list[str]:
    """Cleaned, without empties and repetitions, order kept. Raises `Invalid` (tags_invalid)."""
    kept: dict[str, str] = {}
    for name in map(clean, names):
        if name:
            kept.setdefault(folded(name), name)
    ordered = list(kept.values())
    if len(ordered) > MOST or any(len(name) > LONGEST for name in ordered):
        raise Invalid("A document takes at most 30 tags of at most 60 characters.", code="tags_invalid")
    return ordered


def adopt(base_id: int, names: Sequence[str], *, by: int | None) -> list[str]:
    """The names in the vocabulary's spelling; words that it lacks are added. Raises `Invalid`.

    Called in the transaction that gives them to a document.
    """
    wanted = {folded(name): name for name in clean_many(names)}
    if not wanted:
        return []
    known = dict(Tag.objects.filter(base_id=base_id, folded__in=wanted).values_list("folded", "name"))
    missing = [key for key in wanted if key not in known]
    if missing:
        if Tag.objects.filter(base_id=base_id).count() + len(missing) > MOST_OF_BASE:
            raise Invalid("A base takes at most %(n)s tags.", code="too_many_tags", n=MOST_OF_BASE)
        Tag.objects.bulk_create(
            [Tag(base_id=base_id, folded=key, name=wanted[key], created_by_id=by) for key in sorted(missing)],
            ignore_conflicts=True,
        )
    # Locked until the document has them: a tag that is being renamed must not be given under its old name.
    rows = Tag.objects.select_for_update(no_key=True).filter(base_id=base_id, folded__in=wanted).order_by("pk")
    spelling = {row.folded: row.name for row in rows}
    return [spelling[key] for key in wanted if key in spelling]


def spelt(base_id: int, names: Iterable[str]) -> list[str]:
    """The names as the vocabulary spells them; words that it lacks stay as they are."""
    wanted = [name for name in map(clean, names) if name]
    known = dict(
        Tag.objects.filter(base_id=base_id, folded__in=[folded(name) for name in wanted]).values_list("folded", "name")
    )
    return list(dict.fromkeys(known.get(folded(name), name) for name in wanted))


_USED = """
SELECT t.name, coalesce(u.documents, 0)
  FROM knowledge_tag t
  LEFT JOIN (SELECT tag, count(*) AS documents
               FROM knowledge_document d, unnest(d.tags) AS tag
              WHERE d.base_id = %(base)s AND d.deleted_at IS NULL GROUP BY tag) u ON u.tag = t.name
 WHERE t.base_id = %(base)s ORDER BY t.folded
"""


def vocabulary(base: KnowledgeBase) -> list[Used]:
    """All tags of a base by name, unused ones too."""
    with connection.cursor() as cursor:
        cursor.execute(_USED, {"base": base.pk})
        return [Used(name, int(documents)) for name, documents in cursor.fetchall()]


def find(base: KnowledgeBase, name: str) -> Tag:
    """The tag with this name, however it is spelt. Raises `NotFound`."""
    row = Tag.objects.filter(base=base, folded=folded(clean(name))).first()
    if row is None:
        raise NotFound("There is no such tag here.", code="tag_unknown")
    return row


def _named(name: str) -> str:
    cleaned = clean(name)
    if not cleaned or len(cleaned) > LONGEST:
        raise Invalid("A tag has 1 to 60 characters.", code="tag_name_invalid")
    return cleaned


@transaction.atomic
def create(principal: Principal, base: KnowledgeBase, name: str) -> Tag:
    """Add a word to the vocabulary. Raises `Conflict` when it is there, however it is spelt."""
    cleaned = _named(name)
    if Tag.objects.filter(base=base, folded=folded(cleaned)).exists():
        raise Conflict("The tag %(name)s is there already.", code="tag_taken", name=cleaned)
    adopt(base.pk, [cleaned], by=principal.user_id)
    audit.record(principal, "tag.create", base, base_ids=[base.pk], tag=cleaned)
    return find(base, cleaned)


@transaction.atomic
def rename(principal: Principal, base: KnowledgeBase, tag: Tag, name: str) -> int:
    """Spell a tag differently, on all its documents; returns how many. Raises `Conflict` when the name is taken."""
    cleaned = _named(name)
    row = _locked(base, tag)
    other = Tag.objects.filter(base=base, folded=folded(cleaned)).exclude(pk=row.pk).first()
    if other is not None:
        raise Conflict("The tag %(name)s is there already; merge the two instead.", code="tag_taken", name=other.name)
    before = row.name
    if before == cleaned:
        return 0
    row.name, row.folded = cleaned, folded(cleaned)
    row.save(update_fields=["name", "folded"])
    changed = _replace(base, before, cleaned)
    audit.record(principal, "tag.rename", base, base_ids=[base.pk], before=before, after=cleaned, documents=changed)
    return changed


@transaction.atomic
def merge(principal: Principal, base: KnowledgeBase, tag: Tag, into: Tag) -> int:
    """Give all documents of `tag` the tag `into` instead; returns how many documents changed."""
    first, second = sorted([tag.pk, into.pk])
    if first == second:
        raise Invalid("Choose two different tags.", code="same_tag")
    list(Tag.objects.select_for_update().filter(pk__in=[first, second]).order_by("pk"))
    row, kept = _locked(base, tag), _locked(base, into)
    changed = _replace(base, row.name, kept.name)
    row.delete()
    audit.record(principal, "tag.merge", base, base_ids=[base.pk], tag=tag.name, into=kept.name, documents=changed)
    return changed


@transaction.atomic
def delete(principal: Principal, base: KnowledgeBase, tag: Tag) -> int:
    """Take a tag off all documents and out of the vocabulary; returns how many documents changed."""
    row = _locked(base, tag)
    changed = _replace(base, row.name, None)
    name = row.name
    row.delete()
    audit.record(principal, "tag.delete", base, base_ids=[base.pk], tag=name, documents=changed)
    return changed


def _locked(base: KnowledgeBase, tag: Tag) -> Tag:
    row = Tag.objects.select_for_update().filter(base=base, pk=tag.pk).first()
    if row is None:
        raise NotFound("There is no such tag here.", code="tag_unknown")
    return row


def _replace(base: KnowledgeBase, name: str, new: str | None) -> int:
    """One statement over all documents, those of the recycle bin too; a document never has a tag twice."""
    rows = Document.objects.filter(base=base, tags__contains=[name])
    live = rows.filter(deleted_at__isnull=True).count()
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE knowledge_document SET updated_at = %(now)s, tags = CASE
                     WHEN %(new)s::text IS NULL OR tags @> ARRAY[%(new)s]::varchar[]
                     THEN array_remove(tags, %(name)s::varchar)
                     ELSE array_replace(tags, %(name)s::varchar, %(new)s::varchar) END
             WHERE base_id = %(base)s AND tags @> ARRAY[%(name)s]::varchar[]
            """,
            {"now": timezone.now(), "new": new, "name": name, "base": base.pk},
        )
    lifecycle.touch(base.pk)
    return live


def unused(base: KnowledgeBase) -> list[str]:
    """The words that no document of the base has."""
    return [used.name for used in vocabulary(base) if not used.documents]


def names_of(base: KnowledgeBase) -> list[str]:
    """The vocabulary as names, for suggestions."""
    return list(Tag.objects.filter(base=base).order_by(F("folded")).values_list("name", flat=True))
