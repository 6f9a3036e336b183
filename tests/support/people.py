"""The people of the tests: Alice owns a base, Bob views it, Mallory has no grant, Eve is in another workspace."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from knowledge import bases, intake, lifecycle
from knowledge.ingestion import pipeline
from knowledge.models import Document, KnowledgeBase, Revision, Role
from portal.kernel import people
from portal.kernel.models import Department, Membership, User, Workspace
from portal.kernel.principal import Door, Principal, for_user

PASSWORD = "correct-horse-battery"


@dataclass(frozen=True)
class World:
    """Two workspaces; the first has an admin, a tree of departments and one base with grants."""

    workspace: Workspace
    elsewhere: Workspace
    admin: User
    alice: User
    bob: User
    mallory: User
    eve: User
    company: Department
    sales: Department
    base: KnowledgeBase
    eves_base: KnowledgeBase

    def principal(self, user: User, door: Door = "web") -> Principal:
        return for_user(user, door=door)


def make_world() -> World:
    workspace = people.create_workspace(None, "Clearbrook")
    elsewhere = people.create_workspace(None, "Elsewhere")
    company = people.create_department(None, workspace, "Company")
    sales = people.create_department(None, workspace, "Sales", company)
    users = {
        name: people.create_person(name, PASSWORD, display_name=name.title(), language="en")
        for name in ("adam", "alice", "bob", "mallory", "eve")
    }
    people.set_membership(None, workspace, users["adam"], role=Membership.Role.ADMIN)
    people.set_membership(None, workspace, users["alice"], department=company)
    people.set_membership(None, workspace, users["bob"], department=sales)
    people.set_membership(None, workspace, users["mallory"])
    people.set_membership(None, elsewhere, users["eve"], role=Membership.Role.ADMIN)
    alice, eve = (for_user(users[name], door="web") for name in ("alice", "eve"))
    base = bases.create(alice, name="Handbook")
    bases.grant(alice, base, Role.VIEWER, user=users["bob"])
    eves_base = bases.create(eve, name="Eve's")
    return World(
        workspace=workspace,
        elsewhere=elsewhere,
        admin=users["adam"],
        alice=users["alice"],
        bob=users["bob"],
        mallory=users["mallory"],
        eve=users["eve"],
        company=company,
        sales=sales,
        base=base,
        eves_base=eves_base,
    )


def put(principal: Principal, base: KnowledgeBase, name: str, data: bytes | str, folder: str = "") -> intake.Received:
    """Upload bytes as a file, as a door does."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "upload"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return intake.receive(principal, base, path, name, folder=folder)


def work_through(revision: Revision | None) -> Revision:
    """Do a revision's work in this process, slice by slice, until nobody may claim it."""
    assert revision is not None
    while claim := lifecycle.claim("test", revision.pk):
        pipeline.work(claim)
    revision.refresh_from_db()
    return revision


def indexed(principal: Principal, base: KnowledgeBase, name: str, data: bytes | str, folder: str = "") -> Document:
    """Upload and index a document; fails when it does not become searchable."""
    revision = work_through(put(principal, base, name, data, folder).revision)
    assert revision.status == Revision.Status.INDEXED, (revision.status, revision.error_code, revision.error_message)
    return Document.objects.select_related("base", "active_revision").get(pk=revision.document_id)


__all__ = ["PASSWORD", "World", "indexed", "make_world", "put", "work_through"]
