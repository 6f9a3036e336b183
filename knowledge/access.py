"""Who may see or change knowledge: roles, grants, and narrowing by key, agent and channel. Nobody else decides.

Reads start from `visible_bases`, `visible_documents` or `visible_chunks`. They are querysets built of
subqueries, evaluated when read: a revoked grant is gone at the next statement.
"""

from __future__ import annotations

from django.db.models import Case, Exists, F, Func, IntegerField, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Now

from knowledge.models import (
    Archive,
    Batch,
    Chunk,
    ChunkQuestion,
    Document,
    Grant,
    KnowledgeBase,
    Revision,
    Role,
    Source,
    Upload,
)
from portal.kernel.errors import Denied, NotFound
from portal.kernel.models import Membership, User
from portal.kernel.principal import Principal

ORDER = (Role.VIEWER, Role.EDITOR, Role.OWNER)
# A key needs one of these scopes to use a role that its owner holds.
SCOPES_FOR = {
    Role.VIEWER: ("kb:read", "chat", "mcp"),
    Role.EDITOR: ("kb:write", "kb:manage"),
    Role.OWNER: ("kb:manage",),
}
_NOT_FOUND = "Not found, or you don't have access."


def _memberships(principal: Principal) -> QuerySet[Membership]:
    return Membership.objects.filter(
        workspace_id=principal.workspace_id, user_id=principal.user_id, user__is_active=True
    )


def _live_grants(principal: Principal) -> QuerySet[Grant]:
    """The grants that reach this asker: own, of their departments and these departments' ancestors, of the channel."""
    lineage = _memberships(principal).annotate(
        ancestor=Func(F("department__lineage"), function="unnest", output_field=IntegerField())
    )
    subjects = Q(user_id=principal.user_id) | Q(department_id__in=lineage.values("ancestor"))
    if principal.channel:
        subjects |= Q(channel=principal.channel)
    return Grant.objects.filter(subjects).filter(Q(expires_at__isnull=True) | Q(expires_at__gt=Now()))


def _is_admin(principal: Principal) -> Exists:
    return Exists(_memberships(principal).filter(role=Membership.Role.ADMIN))


def visible_bases(principal: Principal, at_least: Role = Role.VIEWER) -> QuerySet[KnowledgeBase]:
    """The live bases on which the asker's role is `at_least`; empty when their key lacks the scope."""
    if not principal.has(*SCOPES_FOR[at_least]):
        return KnowledgeBase.objects.none()
    roles = ORDER[ORDER.index(at_least) :]
    granted = _live_grants(principal).filter(role__in=roles).values("base_id")
    bases = KnowledgeBase.objects.filter(
        Exists(_memberships(principal)),
        Q(id__in=granted) | (Q(sensitive=False) & Q(_is_admin(principal))),
        workspace_id=principal.workspace_id,
        deleted_at__isnull=True,
    )
    if principal.base_ids is not None:
        bases = bases.filter(id__in=principal.base_ids)
    return bases


def with_role(principal: Principal, bases: QuerySet[KnowledgeBase]) -> QuerySet[KnowledgeBase]:
    """The same bases with `my_role`: the highest of the asker's roles on each."""
    rank = Case(*[When(role=role, then=Value(place)) for place, role in enumerate(ORDER)], output_field=IntegerField())
    own = _live_grants(principal).filter(base=OuterRef("pk")).annotate(rank=rank).order_by("-rank").values("role")[:1]
    return bases.annotate(
        my_role=Case(
            When(Q(sensitive=False) & Q(_is_admin(principal)), then=Value(Role.OWNER.value)),
            default=Subquery(own),
        )
    )


def visible_documents(principal: Principal, at_least: Role = Role.VIEWER) -> QuerySet[Document]:
    """The documents that are not in the recycle bin, of the visible bases."""
    return Document.objects.filter(base__in=visible_bases(principal, at_least), deleted_at__isnull=True)


def deleted_documents(principal: Principal) -> QuerySet[Document]:
    """The recycle bins of the bases that the asker may edit."""
    return Document.objects.filter(base__in=visible_bases(principal, Role.EDITOR), deleted_at__isnull=False)


def visible_revisions(principal: Principal, at_least: Role = Role.VIEWER) -> QuerySet[Revision]:
    """All revisions of the visible documents."""
    return Revision.objects.filter(document__in=visible_documents(principal, at_least))


def visible_chunks(principal: Principal, at_least: Role = Role.VIEWER) -> QuerySet[Chunk]:
    """All chunks of the visible documents, those of earlier revisions included: what citations may open."""
    return Chunk.objects.filter(revision__in=visible_revisions(principal, at_least))


def visible_questions(principal: Principal, at_least: Role = Role.VIEWER) -> QuerySet[ChunkQuestion]:
    """The questions of the passages of the visible documents."""
    return ChunkQuestion.objects.filter(revision__in=visible_revisions(principal, at_least)).defer("lexemes")


def searchable_documents(principal: Principal) -> QuerySet[Document]:
    """The visible documents that a search may find: enabled, with an active revision."""
    return visible_documents(principal).filter(enabled=True, active_revision__isnull=False)


def searchable_passages(principal: Principal) -> QuerySet[Chunk]:
    """The passages that a search of theirs may show now: where text that was found before may still be used."""
    active = searchable_documents(principal).order_by().values("active_revision_id")
    rows = Chunk.objects.filter(revision__in=active, level=Chunk.Level.PASSAGE, enabled=True)
    return rows.defer("lexemes")


def visible_uploads(principal: Principal) -> QuerySet[Upload]:
    """The asker's own uploads: into the bases that they may still edit, and archives where they may make bases."""
    mine = Upload.objects.filter(created_by_id=principal.user_id)
    wanted = Q(base__in=visible_bases(principal, Role.EDITOR))
    if "kb:manage" in principal.scopes and principal.base_ids is None:
        wanted |= Q(base__isnull=True, workspace_id=principal.workspace_id)
    return mine.filter(wanted)


def visible_sources(principal: Principal, at_least: Role = Role.EDITOR) -> QuerySet[Source]:
    """The web sources of the bases that the asker may edit."""
    return Source.objects.filter(base__in=visible_bases(principal, at_least))


def visible_batches(principal: Principal) -> QuerySet[Batch]:
    """The batches of the bases that the asker may edit: they name documents, and what went wrong with them."""
    return Batch.objects.filter(base__in=visible_bases(principal, Role.EDITOR))


def visible_archives(principal: Principal) -> QuerySet[Archive]:
    """The exports of the bases that the asker manages, and the imports that they started themselves."""
    exports = Q(kind=Archive.Kind.EXPORT, base__in=visible_bases(principal, Role.OWNER))
    if not principal.has("kb:manage") or principal.base_ids is not None:
        return Archive.objects.filter(exports)
    own = Q(kind=Archive.Kind.IMPORT, created_by_id=principal.user_id, workspace_id=principal.workspace_id)
    return Archive.objects.filter(Exists(_memberships(principal)), exports | own)


def closed_bases(principal: Principal) -> QuerySet[KnowledgeBase]:
    """Of the bases of the workspace, deleted ones too, those whose names and words stay hidden even from an admin.

    Sensitive ones without a grant, and what lies outside the list of a key.
    """
    closed = Q(sensitive=True) & ~Q(id__in=_live_grants(principal).values("base_id"))
    if principal.base_ids is not None:
        closed |= ~Q(id__in=principal.base_ids)
    return KnowledgeBase.objects.filter(closed, workspace_id=principal.workspace_id)


def all_visible(principal: Principal, base_ids: list[int]) -> bool:
    """Whether text copied out of these bases may still be shown: only while every one of them is visible."""
    wanted = set(base_ids)
    return not wanted or visible_bases(principal).filter(id__in=wanted).count() == len(wanted)


def access_base(principal: Principal, uid: str, at_least: Role = Role.VIEWER) -> KnowledgeBase:
    """The base with this uid. `NotFound` when absent or hidden; `Denied` when visible but the role is too small."""
    base = with_role(principal, visible_bases(principal)).filter(uid=uid).first()
    if base is None:
        raise NotFound(_NOT_FOUND)
    _require(principal, base, at_least)
    return base


def access_document(principal: Principal, uid: str, at_least: Role = Role.VIEWER) -> Document:
    """The document with this uid, its base at hand; errors as `access_base`."""
    document = visible_documents(principal).select_related("base", "active_revision").filter(uid=uid).first()
    if document is None:
        raise NotFound(_NOT_FOUND)
    _require(principal, document.base, at_least)
    return document


def access_deleted_document(principal: Principal, uid: str) -> Document:
    """A document of a recycle bin that the asker may restore or purge."""
    document = deleted_documents(principal).select_related("base").filter(uid=uid).first()
    if document is None:
        raise NotFound(_NOT_FOUND)
    return document


def access_revision(principal: Principal, uid: str, at_least: Role = Role.VIEWER) -> Revision:
    """The revision with this uid, document and base at hand; errors as `access_base`."""
    revision = visible_revisions(principal).select_related("document", "document__base", "base").filter(uid=uid).first()
    if revision is None:
        raise NotFound(_NOT_FOUND)
    _require(principal, revision.document.base, at_least)
    return revision


def access_chunk(principal: Principal, chunk_id: int, at_least: Role = Role.VIEWER) -> Chunk:
    """The chunk with this id, revision, document and base at hand; errors as `access_base`."""
    chunk = (
        visible_chunks(principal)
        .select_related("revision", "revision__document", "revision__document__base")
        .filter(pk=chunk_id)
        .first()
    )
    if chunk is None:
        raise NotFound(_NOT_FOUND)
    _require(principal, chunk.revision.document.base, at_least)
    return chunk


def access_question(principal: Principal, uid: str, at_least: Role = Role.VIEWER) -> ChunkQuestion:
    """The question with this uid, passage, document and base at hand; errors as `access_base`."""
    rows = visible_questions(principal).select_related("chunk", "revision__document__base").defer("chunk__lexemes")
    question = rows.filter(uid=uid).first()
    if question is None:
        raise NotFound(_NOT_FOUND)
    _require(principal, question.revision.document.base, at_least)
    return question


def access_source(principal: Principal, uid: str, at_least: Role = Role.EDITOR) -> Source:
    """The source with this uid, its base at hand; errors as `access_base`."""
    source = visible_sources(principal, Role.VIEWER).select_related("base").filter(uid=uid).first()
    if source is None:
        raise NotFound(_NOT_FOUND)
    _require(principal, source.base, at_least)
    return source


def access_batch(principal: Principal, uid: str) -> Batch:
    """The batch with this uid, its base at hand. `NotFound` when absent or hidden."""
    batch = visible_batches(principal).select_related("base", "created_by", "undoes").filter(uid=uid).first()
    if batch is None:
        raise NotFound(_NOT_FOUND)
    return batch


def access_archive(principal: Principal, uid: str) -> Archive:
    """The export or import with this uid, its base at hand. `NotFound` when absent or hidden."""
    archive = visible_archives(principal).select_related("base", "created_by").filter(uid=uid).first()
    if archive is None:
        raise NotFound(_NOT_FOUND)
    return archive


def editors_of(base: KnowledgeBase) -> QuerySet[User]:
    """The people who may edit a base: `visible_bases(…, EDITOR)` read from its other end."""
    live = Grant.objects.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=Now()), base=base)
    granting = live.filter(role__in=(Role.EDITOR, Role.OWNER))
    departments = list(granting.filter(department__isnull=False).values_list("department_id", flat=True))
    members = Q(user__in=granting.filter(user__isnull=False).values("user"))
    members |= Q(department__lineage__overlap=departments)
    if not base.sensitive:
        members |= Q(role=Membership.Role.ADMIN)
    found = Membership.objects.filter(members, workspace_id=base.workspace_id, user__is_active=True)
    return User.objects.filter(pk__in=found.values("user")).order_by("display_name", "username")


def may_edit(user: User, base: KnowledgeBase) -> bool:
    """Whether a person, at their own browser, may edit a base."""
    return editors_of(base).filter(pk=user.pk).exists()


def _require(principal: Principal, base: KnowledgeBase, at_least: Role) -> None:
    if at_least != Role.VIEWER and not visible_bases(principal, at_least).filter(pk=base.pk).exists():
        if not principal.has(*SCOPES_FOR[at_least]):
            raise Denied("This key lacks the scope %(scope)s.", code="scope_missing", scope=SCOPES_FOR[at_least][0])
        raise Denied("Your role on this knowledge base is too small for this.", code="role_too_small")
