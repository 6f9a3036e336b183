"""The sample workspace: read from `sample/workspace.json`, made through the same verbs as everything else.

Running it again changes nothing that is there. Passwords are generated once into the data folder.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from knowledge import bases, intake
from knowledge.models import Document, KnowledgeBase, Role
from portal.kernel import people
from portal.kernel.errors import Conflict
from portal.kernel.models import Department, Membership, User, Workspace
from portal.kernel.principal import Principal, for_user

SAMPLE = settings.BASE_DIR / "sample"


def sample_logins() -> dict[str, str]:
    """User name → password of the sample people, generated at the first call, kept with mode 0600."""
    path = Path(settings.DATA_DIR) / "sample-logins.json"
    if path.exists():
        logins: dict[str, str] = json.loads(path.read_text("utf-8"))
        return logins
    description = _description()
    logins = {row["username"]: secrets.token_urlsafe(9) for row in description["people"]}
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump(logins, stream, indent=2)
    return logins


def _description() -> dict[str, Any]:
    value: dict[str, Any] = json.loads((SAMPLE / "workspace.json").read_text("utf-8"))
    return value


def seed() -> Workspace:
    """Make the sample workspace, or what is missing of its people and bases."""
    description = _description()
    name = description["workspace"]["name"]
    workspace = Workspace.objects.filter(name=name).first() or people.create_workspace(None, name)
    departments = _departments(workspace, description["departments"])
    persons = _people(workspace, description["people"], departments)
    for row in description["bases"]:
        _base(workspace, row, departments, persons)
    return workspace


def _departments(workspace: Workspace, rows: list[dict[str, Any]]) -> dict[str, Department]:
    made: dict[str, Department] = {}
    for row in rows:
        parent = made[row["parent"]] if row["parent"] else None
        existing = Department.objects.filter(workspace=workspace, parent=parent, name=row["name"]).first()
        made[row["id"]] = existing or people.create_department(None, workspace, row["name"], parent)
    return made


def _people(workspace: Workspace, rows: list[dict[str, Any]], departments: dict[str, Department]) -> dict[str, User]:
    logins = sample_logins()
    made: dict[str, User] = {}
    for row in rows:
        user = User.objects.filter(username=row["username"]).first()
        if user is None:
            user = people.create_person(
                row["username"],
                logins[row["username"]],
                display_name=row["name"],
                email=row["email"],
                language=row["language"],
            )
        if not Membership.objects.filter(workspace=workspace, user=user).exists():
            people.set_membership(
                None, workspace, user, role=Membership.Role(row["role"]), department=departments.get(row["department"])
            )
        made[row["username"]] = user
    return made


def _base(
    workspace: Workspace, row: dict[str, Any], departments: dict[str, Department], persons: dict[str, User]
) -> None:
    owner = persons[next(grant["user"] for grant in row["grants"] if grant.get("role") == "owner")]
    principal = for_user(owner, door="command", workspace_uid=workspace.uid)
    base = KnowledgeBase.objects.filter(workspace=workspace, name=row["name"]).first()
    if base is None:
        base = _new_base(principal, row, departments, persons)
    if base.deleted_at is None:
        for document in row["documents"]:
            _document(principal, base, document)


@transaction.atomic
def _new_base(
    principal: Principal, row: dict[str, Any], departments: dict[str, Department], persons: dict[str, User]
) -> KnowledgeBase:
    base = bases.create(
        principal, name=row["name"], description=row["description"], sensitive=row.get("sensitive", False)
    )
    for grant in row["grants"]:
        if "user" in grant:
            bases.grant(principal, base, Role(grant["role"]), user=persons[grant["user"]])
        else:
            bases.grant(principal, base, Role(grant["role"]), department=departments[grant["department"]])
    return base


def _document(principal: Principal, base: KnowledgeBase, row: dict[str, Any]) -> None:
    # What a person has deleted is not brought back by the next start.
    if Document.objects.filter(base=base, source_key=f"{row['folder']}/{row['file']}").exists():
        return
    # Intake is given a copy: what it is handed belongs to it.
    with tempfile.TemporaryDirectory(prefix="archway-seed-") as folder:
        copy = Path(folder) / "file"
        shutil.copyfile(SAMPLE / "files" / row["file"], copy)
        try:
            intake.receive(principal, base, copy, row["file"], folder=row["folder"])
        except Conflict as error:
            if error.code != "duplicate":
                raise
