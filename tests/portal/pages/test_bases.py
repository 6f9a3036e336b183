from __future__ import annotations

from django.test import Client

from knowledge import bases
from knowledge.models import Document, KnowledgeBase, Role
from portal.kernel import notify
from portal.kernel.models import Notification, User
from portal.kernel.principal import for_user
from tests.support.people import PASSWORD, World


def test_a_new_base_belongs_to_its_maker(mallory: Client, world: World) -> None:
    response = mallory.post("/bases/new/", {"name": " 产品  手册 ", "description": "x", "sensitive": "on"})
    base = KnowledgeBase.objects.get(name="产品 手册")
    assert response["Location"] == f"/bases/{base.uid}/documents/"
    assert base.sensitive and base.grants.get().role == Role.OWNER
    assert base.workspace_id == world.workspace.pk


def test_a_name_in_use_keeps_what_was_entered(alice: Client) -> None:
    response = alice.post("/bases/new/", {"name": "Handbook", "description": "kept words"})
    html = response.content.decode()
    assert response.status_code == 422
    assert "A knowledge base named Handbook is there already." in html and "kept words" in html
    assert 'aria-invalid="true"' in html and "1 thing to fix" in html


def test_each_person_finds_only_their_bases(alice: Client, bob: Client, mallory: Client) -> None:
    assert "Handbook" in alice.get("/bases/").content.decode()
    assert "Can view" in bob.get("/bases/").content.decode()
    assert "Handbook" not in mallory.get("/bases/").content.decode()
    assert "Handbook" not in mallory.get("/search/?q=andb").content.decode()
    assert "Handbook" in alice.get("/search/?q=andb").content.decode()


def test_mine_are_those_i_own_by_name(alice: Client, bob: Client) -> None:
    assert "Handbook" in alice.get("/bases/?show=mine").content.decode()
    assert "Handbook" not in bob.get("/bases/?show=mine").content.decode()
    assert "No bases match “zzz”" in bob.get("/bases/?q=zzz").content.decode()


def test_search_finds_documents_by_name_until_the_grant_is_gone(bob: Client, world: World) -> None:
    Document.objects.create(base=world.base, source_key="vacation.md", name="vacation.md")
    assert "vacation.md" in bob.get("/search/?q=VACA").content.decode()
    assert "vacation.md" in bob.get("/").content.decode()
    bases.revoke(for_user(world.alice, door="web"), world.base, world.base.grants.get(user=world.bob))
    assert "vacation.md" not in bob.get("/search/?q=VACA").content.decode()
    assert "vacation.md" not in bob.get("/").content.decode()


def test_bases_sort_by_name_size_and_change_both_ways(alice: Client, world: World) -> None:
    small = bases.create(for_user(world.alice, door="web"), name="Another")
    Document.objects.create(base=world.base, source_key="a.md", name="a.md")

    def order(sort: str) -> list[str]:
        html = alice.get(f"/bases/?sort={sort}").content.decode()
        return sorted([small.uid, world.base.uid], key=lambda uid: html.index(f'id="base-{uid}"'))

    assert order("name") == order("nonsense") == order("documents") == [small.uid, world.base.uid]
    assert order("-name") == order("-documents") == order("-changed") == [world.base.uid, small.uid]
    assert 'aria-sort="descending"' in alice.get("/bases/?sort=-name").content.decode()


def tell_bob(world: World) -> Notification:
    notify.tell(
        [world.bob], "revision.failed", workspace_id=world.workspace.pk, base_ids=[world.base.pk],
        link=f"/bases/{world.base.uid}/documents/", document="<b>x</b>.pdf", reason="The file is empty.",
    )  # fmt: skip
    return Notification.objects.filter(user=world.bob, kind="revision.failed").get()


def test_a_notification_is_worded_in_the_readers_language_and_marked_when_followed(bob: Client, world: World) -> None:
    row = tell_bob(world)
    html = bob.get("/notifications/").content.decode()
    assert "&lt;b&gt;x&lt;/b&gt;.pdf could not be processed: The file is empty." in html
    bob.cookies["django_language"] = "zh-hans"
    assert "处理失败：文件是空的。" in bob.get("/notifications/").content.decode()
    assert bob.get(f"/notifications/{row.uid}/")["Location"] == row.link
    assert Notification.objects.get(pk=row.pk).read_at is not None


def test_a_notification_goes_with_the_grant_and_is_nobody_elses(bob: Client, alice: Client, world: World) -> None:
    row = tell_bob(world)
    assert alice.get(f"/notifications/{row.uid}/").status_code == 404
    bases.revoke(for_user(world.alice, door="web"), world.base, world.base.grants.get(user=world.bob))
    assert "x&lt;/b&gt;.pdf" not in bob.get("/notifications/").content.decode()
    assert bob.get(f"/notifications/{row.uid}/").status_code == 404
    assert "unread notification" not in bob.get("/").content.decode()


def test_a_notification_never_leads_to_another_site(bob: Client, world: World) -> None:
    row = tell_bob(world)
    Notification.objects.filter(pk=row.pk).update(link="https://evil.example/")
    assert bob.get(f"/notifications/{row.uid}/")["Location"] == "/notifications/"


def test_all_notifications_can_be_marked_as_read(bob: Client, world: World) -> None:
    tell_bob(world)
    bob.post("/notifications/read/")
    assert not Notification.objects.filter(user=world.bob, read_at__isnull=True).exists()
    assert "You have read everything" in bob.get("/notifications/?show=unread").content.decode()


def test_preferences_are_kept_and_felt(alice: Client, world: World) -> None:
    alice.post("/account/preferences/", {"language": "zh-hans", "theme": "dark"})
    person = User.objects.get(pk=world.alice.pk)
    assert (person.language, person.theme, person.letter_keys) == ("zh-hans", "dark", False)
    html = alice.get("/account/preferences/").content.decode()
    assert 'data-letter-keys="off"' in html and 'data-theme="dark"' in html and "偏好已保存" in html


def test_a_password_is_changed_only_with_the_old_one(alice: Client, world: World) -> None:
    form = {"old_password": "wrong", "new_password1": "staple-battery-9", "new_password2": "staple-battery-9"}
    assert alice.post("/account/password/", form).status_code == 422
    assert alice.post("/account/password/", {**form, "old_password": PASSWORD}).status_code == 302
    assert User.objects.get(pk=world.alice.pk).check_password("staple-battery-9")
    assert alice.get("/").status_code == 200
