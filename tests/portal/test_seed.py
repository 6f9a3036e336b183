"""The sample workspace, made by the command of that name."""

from __future__ import annotations

from io import StringIO

from django.core.management import call_command

from portal.seed import sample_logins


def test_seeding_into_a_log_prints_no_password(db: None) -> None:
    out = StringIO()
    call_command("seed", stdout=out)
    logins = sample_logins()
    assert "alice" in logins
    assert "alice" in out.getvalue()
    assert not [name for name, password in logins.items() if password in out.getvalue()]
