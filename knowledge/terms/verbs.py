"""What people do with the terms of a base: add, change, delete, take over a sheet.

A change holds from its commit on for queries; leaves that hold a changed word follow in the background
(`retokenising`). The base comes from `access_base(…, EDITOR)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet, Sum

from knowledge import background
from knowledge.models import KnowledgeBase, Revision, Term, TermChange
from knowledge.terms import overlay
from knowledge.text import clean
from knowledge.text.terms import surface_of
from portal.kernel import audit
from portal.kernel.errors import Conflict, Invalid, NotFound
from portal.kernel.principal import Principal

LONGEST = 100
MOST_SYNONYMS = 50
MOST = 5_000
LEAST_WEIGHT, MOST_WEIGHT = 0.1, 5.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A term as it shall be: checked and cleaned."""

    text: str
    synonyms: tuple[str, ...] = ()
    weight: float = 1.0

    @property
    def surface(self) -> str:
        return surface_of(self.text)


def wanted(text: str, synonyms: Iterable[str] = (), weight: float = 1.0) -> Wanted:
    """Checked and cleaned. Raises `Invalid` (term_invalid, synonyms_invalid, weight_invalid)."""
    text = _word(text)
    kept: dict[str, str] = {}
    for synonym in synonyms:
        if synonym.strip():
            cleaned = _word(synonym)
            kept.setdefault(surface_of(cleaned), cleaned)
    kept.pop(surface_of(text), None)
    if len(kept) > MOST_SYNONYMS:
        raise Invalid("A term takes at most %(n)s synonyms.", code="synonyms_invalid", n=MOST_SYNONYMS)
    if not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
        raise Invalid(
            "The weight is between %(least)s and %(most)s.",
            code="weight_invalid",
            least=f"{LEAST_WEIGHT:g}",
            most=f"{MOST_WEIGHT:g}",
        )
    return Wanted(text, tuple(kept.values()), float(weight))


def _word(text: str) -> str:
    cleaned = " ".join(clean(text).split())
    if not surface_of(cleaned) or len(cleaned) > LONGEST:
        raise Invalid("A term or synonym has 1 to %(n)s characters.", code="term_invalid", n=LONGEST)
    return cleaned


def terms_of(base: KnowledgeBase, query: str = "") -> QuerySet[Term]:
    """The terms of a base by name; `query` narrows to those with a word that holds it."""
    rows = Term.objects.filter(base=base).order_by("surface")
    wanted_part = surface_of(query[:LONGEST])
    if wanted_part:
        by_synonym = [row.pk for row in rows if any(wanted_part in surface_of(one) for one in row.synonyms)]
        rows = rows.filter(surface__contains=wanted_part) | rows.filter(pk__in=by_synonym)
    return rows


def find(base: KnowledgeBase, uid: str) -> Term:
    """The term with this id. Raises `NotFound`."""
    row = Term.objects.filter(base=base, uid=uid).first()
    if row is None:
        raise NotFound("Not found, or you don't have access.")
    return row


@transaction.atomic
def add(principal: Principal, base: KnowledgeBase, new: Wanted) -> Term:
    """Raises `Conflict` (term_taken: it is there, however it is spelt) and `Invalid` (too_many_terms)."""
    overlay.alone(base.pk)
    taken = Term.objects.filter(base=base, surface=new.surface).first()
    if taken is not None:
        raise Conflict("The term %(name)s is there already.", code="term_taken", name=taken.text)
    _room(base, 1)
    row = Term.objects.create(base=base, created_by_id=principal.user_id, **_fields(new))
    audit.record(principal, "term.add", base, base_ids=[base.pk], **_told(new))
    _follow(principal, base, _pairs([row]))
    return row


@transaction.atomic
def change(principal: Principal, base: KnowledgeBase, term: Term, new: Wanted) -> Term:
    """Raises `Conflict` (term_taken)."""
    overlay.alone(base.pk)
    row = _locked(base, term)
    taken = Term.objects.filter(base=base, surface=new.surface).exclude(pk=row.pk).first()
    if taken is not None:
        raise Conflict("The term %(name)s is there already.", code="term_taken", name=taken.text)
    before, told = _pairs([row]), {"text": row.text, "synonyms": row.synonyms, "weight": row.weight}
    for name, value in _fields(new).items():
        setattr(row, name, value)
    row.save()
    audit.record(principal, "term.change", base, base_ids=[base.pk], before=told, **_told(new))
    _follow(principal, base, before ^ _pairs([row]))
    return row


@transaction.atomic
def delete(principal: Principal, base: KnowledgeBase, uids: Sequence[str]) -> int:
    """Returns how many were there; those that are not are left out."""
    overlay.alone(base.pk)
    rows = list(Term.objects.filter(base=base, uid__in=list(uids)))
    if not rows:
        return 0
    pairs = _pairs(rows)
    Term.objects.filter(pk__in=[row.pk for row in rows]).delete()
    audit.record(principal, "term.delete", base, base_ids=[base.pk], terms=[row.text for row in rows][:100])
    _follow(principal, base, pairs)
    return len(rows)


@transaction.atomic
def take_over(principal: Principal, base: KnowledgeBase, rows: Sequence[Wanted], *, replace: bool = False) -> int:
    """Add terms, or change those that are there; `replace`: what is not among them is deleted. Returns how many."""
    overlay.alone(base.pk)
    there = {row.surface: row for row in Term.objects.filter(base=base)}
    news = {new.surface: new for new in rows}
    before = _pairs(there.values())
    gone = [row.pk for surface, row in there.items() if replace and surface not in news]
    _room(base, len([surface for surface in news if surface not in there]) - len(gone))
    Term.objects.filter(pk__in=gone).delete()
    for surface, new in news.items():
        row = there.get(surface) or Term(base=base, created_by_id=principal.user_id)
        for name, value in _fields(new).items():
            setattr(row, name, value)
        row.save()
    after = _pairs(Term.objects.filter(base=base))
    audit.record(principal, "term.import", base, base_ids=[base.pk], terms=len(news), deleted=len(gone))
    _follow(principal, base, before ^ after)
    return len(news)


def _room(base: KnowledgeBase, more: int) -> None:
    if more > 0 and Term.objects.filter(base=base).count() + more > MOST:
        raise Invalid("A base takes at most %(n)s terms.", code="too_many_terms", n=MOST)


def _locked(base: KnowledgeBase, term: Term) -> Term:
    row = Term.objects.select_for_update().filter(base=base, pk=term.pk).first()
    if row is None:
        raise NotFound("Not found, or you don't have access.")
    return row


def _fields(new: Wanted) -> dict[str, Any]:
    return {"text": new.text, "surface": new.surface, "synonyms": list(new.synonyms), "weight": new.weight}


def _told(new: Wanted) -> dict[str, Any]:
    return {"text": new.text, "synonyms": list(new.synonyms), "weight": new.weight}


def _pairs(rows: Iterable[Term]) -> set[tuple[str, str]]:
    """(surface, term) of every word: what decides which lexemes a text has."""
    return {(surface_of(word), row.surface) for row in rows for word in (row.text, *row.synonyms)}


def _follow(principal: Principal, base: KnowledgeBase, changed: set[tuple[str, str]]) -> None:
    """What follows a change, in its transaction: searches use it, and the leaves it touches are queued."""
    KnowledgeBase.objects.filter(pk=base.pk).update(terms_version=F("terms_version") + 1, stamp=F("stamp") + 1)
    if not changed:
        return  # only weights
    surfaces = {surface for surface, _ in changed}
    total = Revision.objects.filter(base=base).aggregate(n=Sum("chunk_count"))["n"] or 0
    row = TermChange.objects.select_for_update().filter(base=base, status__in=TermChange.OPEN).first()
    if row is None:
        row = TermChange.objects.create(
            **background.as_asked_by(principal), base=base, surfaces=sorted(surfaces), total=total
        )
    else:
        TermChange.objects.filter(pk=row.pk).update(
            surfaces=sorted({*row.surfaces, *surfaces}), at_revision=0, at_leaf=-1, done=0, total=total
        )
    background.wake(row)


def last_change(base: KnowledgeBase) -> TermChange | None:
    """The newest work that followed a change, ended or not."""
    return TermChange.objects.filter(base=base).order_by("-pk").first()


def moved(principal: Principal, source: KnowledgeBase, target: KnowledgeBase, revisions: Sequence[int]) -> None:
    """Leaves came from another base, in the caller's transaction, which holds both: they are brought to these terms."""
    rows = Term.objects.filter(base__in=[source, target])
    surfaces = {surface for surface, _ in _pairs(rows)}
    if not surfaces or not revisions:
        return
    first = min(revisions)
    row = TermChange.objects.select_for_update().filter(base=target, status__in=TermChange.OPEN).first()
    if row is None:
        total = Revision.objects.filter(base=target, pk__gte=first).aggregate(n=Sum("chunk_count"))["n"] or 0
        row = TermChange.objects.create(
            **background.as_asked_by(principal), base=target, surfaces=sorted(surfaces), total=total, at_revision=first
        )
    else:
        # Where it has passed the first of these leaves, it goes back to them.
        back = {"at_revision": first, "at_leaf": -1} if row.at_revision >= first else {}
        TermChange.objects.filter(pk=row.pk).update(surfaces=sorted({*row.surfaces, *surfaces}), **back)
    background.wake(row)
