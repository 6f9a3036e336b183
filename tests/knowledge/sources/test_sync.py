"""Web sources on a real site: what comes in, what a second run touches, and what a fault never takes away."""

from __future__ import annotations

import gzip
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from knowledge import documents, moving
from knowledge.models import Chunk, Document, Grant, KnowledgeBase, Revision, Role, Source, SourceRun
from knowledge.sources import crawl, runs, verbs
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.models import AuditEntry, Membership, Notification, User, bump_acl
from tests.support.people import World, work_through
from tests.support.website import Site


def make(world: World, url: str, kind: str = "site", **values: Any) -> Source:
    return verbs.create(world.principal(world.alice), world.base, url=url, kind=kind, **values)


def synced(source: Source) -> SourceRun:
    """The newest run, worked to its end in this process; waiting times do not count here."""
    run = source.runs.latest("number")
    for _ in range(200):
        claim = runs.claim("test", run.pk)
        if claim is None:
            break
        crawl.work(claim)
        source.pages.update(not_before=None)
    run.refresh_from_db()
    assert run.status not in SourceRun.OPEN
    for revision in Revision.objects.filter(status=Revision.Status.PENDING):
        work_through(revision)
    return run


def again(world: World, source: Source) -> SourceRun:
    runs.start(world.principal(world.alice), source, SourceRun.Trigger.PERSON)
    return synced(source)


def counts(run: SourceRun) -> dict[str, int]:
    return {name: number for name, number in run.counts.items() if number}


def names(world: World, **narrow: Any) -> list[str]:
    rows = Document.objects.filter(base=world.base, deleted_at__isnull=True, **narrow)
    return sorted(f"{row.folder}/{row.name}" for row in rows)


@pytest.fixture
def manual(site: Site) -> Site:
    """Three pages that link to one another, and one behind the last."""
    site.page("/", "Manual", "How the pump is used, in three chapters.", "/start.html", "/care/oil.html#top")
    site.page("/start.html", "Starting", "Close the valve, then start the pump.", "/", "/care/oil.html?utm_source=x")
    site.page("/care/oil.html", "Oil", "Change the oil each year, and write down when.", "/deep/a.html")
    site.page("/deep/a.html", "Deep", "Only reached in three steps from the start.", "/deep/b.html")
    site.page("/deep/b.html", "Deeper", "Too far away from the start to be read.")
    return site


def test_a_site_comes_in_to_its_depth_each_page_once(world: World, manual: Site) -> None:
    source = make(world, manual.url(), depth=2, folder="web")
    run = synced(source)
    assert run.status == "done"
    assert counts(run) == {"new": 4}
    assert names(world) == ["web/Manual.html", "web/Starting.html", "web/care/Oil.html", "web/deep/Deep.html"]
    assert manual.asked.count("/care/oil.html") == 1
    assert manual.most_at_once == 1
    assert manual.agents == {"ArchwayBot/1.0"}
    document = Document.objects.get(name="Oil.html")
    assert document.origin.url == manual.url("/care/oil.html")
    chunk = Chunk.objects.filter(revision=document.active_revision).first()
    assert chunk is not None
    text = chunk.text
    assert "Change the oil" in text and "Menu" not in text and "Imprint" not in text


def test_a_second_run_touches_only_what_changed(world: World, manual: Site) -> None:
    source = make(world, manual.url(), depth=2)
    synced(source)
    before = {row.pk: row.updated_at for row in Document.objects.filter(base=world.base)}
    manual.page("/start.html", "Starting", "Open the valve first, then start the pump.", "/")
    manual.page("/", "Manual", "How the pump is used, in three chapters.", "/start.html", "/care/oil.html", "/new.html")
    manual.page("/new.html", "New", "A page that was not there before.")
    run = again(world, source)
    assert counts(run) == {"changed": 1, "unchanged": 3, "new": 1}
    starting = Document.objects.get(name="Starting.html")
    assert starting.revisions.count() == 2
    untouched = Document.objects.filter(pk__in=before).exclude(pk=starting.pk)
    assert all(row.updated_at == before[row.pk] and row.revisions.count() == 1 for row in untouched)


def test_a_server_that_says_unchanged_is_believed(world: World, manual: Site) -> None:
    manual.page("/a.html", "Alone", "One page with a tag of its own.", headers={"ETag": '"v1"'})
    source = make(world, manual.url("/a.html"), "page")
    synced(source)
    assert counts(again(world, source)) == {"unchanged": 1}
    assert Document.objects.get(name="Alone.html").revisions.count() == 1


@pytest.mark.parametrize(
    ("setting", "enabled", "listed"), [("disable", False, 1), ("delete", False, 0), ("keep", True, 1)]
)
def test_a_page_that_is_gone_goes_the_way_that_the_source_says(
    world: World, manual: Site, setting: str, enabled: bool, listed: int
) -> None:
    source = make(world, manual.url(), depth=2, gone=setting)
    synced(source)
    del manual.pages["/start.html"]
    run = again(world, source)
    assert run.counts["gone"] == 1
    assert [row["url"] for row in run.problems] == [manual.url("/start.html")]
    document = Document.objects.get(name="Starting.html")
    assert len(names(world, name="Starting.html")) == listed
    if listed:
        assert document.enabled is enabled
    assert again(world, source).counts["gone"] == 0


def test_a_page_that_comes_back_is_found_again(world: World, manual: Site) -> None:
    source = make(world, manual.url(), depth=2)
    synced(source)
    kept = manual.pages.pop("/start.html")
    again(world, source)
    manual.pages["/start.html"] = kept
    again(world, source)
    document = Document.objects.get(name="Starting.html")
    assert document.enabled and document.revisions.count() == 1


@pytest.mark.parametrize("status", [500, 503, 429, 403, 401])
def test_a_passing_fault_takes_nothing_away(world: World, manual: Site, status: int) -> None:
    source = make(world, manual.url(), depth=2)
    synced(source)
    manual.put("/start.html", "sorry", status=status)
    run = again(world, source)
    assert counts(run)["failed"] == 1 and run.counts["gone"] == 0
    assert Document.objects.get(name="Starting.html").enabled
    tries = 3 if status in (500, 503, 429) else 1
    assert manual.asked.count("/start.html") == 1 + tries


def test_a_page_without_its_text_is_left_alone(world: World, manual: Site) -> None:
    source = make(world, manual.url(), depth=2)
    synced(source)
    manual.put("/start.html", "<html><body><script>render()</script></body></html>")
    run = again(world, source)
    assert counts(run)["skipped"] == 1
    assert run.problems[0]["code"] == "page_empty"
    assert Document.objects.get(name="Starting.html").enabled


def test_what_somebody_deleted_here_does_not_come_back(world: World, manual: Site) -> None:
    source = make(world, manual.url(), depth=2)
    synced(source)
    documents.delete(world.principal(world.alice), Document.objects.get(name="Starting.html"))
    manual.page("/start.html", "Starting", "Changed in the meantime, but nobody here wants it.")
    run = again(world, source)
    assert [row["code"] for row in run.problems] == ["deleted_here"]
    assert names(world, name__startswith="Starting") == []


def test_a_moved_and_renamed_document_keeps_its_revisions(world: World, manual: Site) -> None:
    source = make(world, manual.url(), depth=2)
    synced(source)
    document = Document.objects.get(name="Starting.html")
    documents.describe(world.principal(world.alice), document, name="How to start.html", folder="own")
    manual.page("/start.html", "Another title", "Open the valve first, then start the pump.", "/")
    assert counts(again(world, source))["changed"] == 1
    document.refresh_from_db()
    assert (document.name, document.revisions.count()) == ("How to start.html", 2)


def moved_away(world: World, owner: User) -> tuple[Document, KnowledgeBase]:
    """The page "Starting", moved by a person who may edit both bases."""
    alice = world.principal(world.alice)
    other = KnowledgeBase.objects.create(
        workspace=world.workspace, name="Archive", embedding=world.base.embedding, created_by=owner
    )
    mine = Grant.objects.create(base=other, user=world.alice, role=Role.EDITOR)
    Grant.objects.create(base=other, user=owner, role=Role.OWNER)
    bump_acl(world.workspace.pk)
    document = Document.objects.get(name="Starting.html")
    moving.move(alice, document, other)
    if owner != world.alice:
        mine.delete()
        bump_acl(world.workspace.pk)
    document.refresh_from_db()
    return document, other


def test_a_document_moved_to_another_base_is_kept_up_to_date_there_and_only_there(world: World, manual: Site) -> None:
    source = make(world, manual.url(), depth=2)
    synced(source)
    before = Document.objects.count()
    document, other = moved_away(world, world.bob)
    Grant.objects.create(base=other, user=world.alice, role=Role.EDITOR)
    bump_acl(world.workspace.pk)
    assert counts(again(world, source))["unchanged"] > 0
    manual.page("/start.html", "Starting", "Open the valve first, then start the pump.", "/")
    assert counts(again(world, source))["changed"] == 1
    document.refresh_from_db()
    assert (document.base, document.revisions.count(), Document.objects.count()) == (other, 2, before)
    assert {revision.base_id for revision in document.revisions.all()} == {other.pk}
    del manual.pages["/start.html"]
    again(world, source)
    document.refresh_from_db()
    assert (document.base, document.enabled, Document.objects.count()) == (other, False, before)


def test_a_document_moved_out_of_the_makers_hands_is_left_alone(world: World, manual: Site) -> None:
    source = make(world, manual.url(), depth=2, gone="delete")
    synced(source)
    before = Document.objects.count()
    document, other = moved_away(world, world.bob)
    manual.page("/start.html", "Starting", "Open the valve first, then start the pump.", "/")
    assert [row["code"] for row in again(world, source).problems] == ["moved_away"]
    del manual.pages["/start.html"]
    assert "moved_away" in [row["code"] for row in again(world, source).problems]
    verbs.delete(world.principal(world.alice), source, with_documents=True)
    document.refresh_from_db()
    assert (document.base, document.enabled, document.deleted_at) == (other, True, None)
    assert (document.revisions.count(), Document.objects.count()) == (1, before)


def test_robots_txt_is_obeyed_for_our_name_and_for_everybody(world: World, manual: Site) -> None:
    manual.put(
        "/robots.txt",
        "User-agent: *\nDisallow: /care/\n\nUser-agent: ArchwayBot\nDisallow: /start\n",
        kind="text/plain",
    )
    run = synced(make(world, manual.url(), depth=1))
    assert [(row["url"], row["code"]) for row in run.problems] == [(manual.url("/start.html"), "robots_forbidden")]
    assert "/start.html" not in manual.asked and "/care/oil.html" in manual.asked


def test_while_robots_txt_can_not_be_read_nothing_is(world: World, manual: Site) -> None:
    manual.put("/robots.txt", "down", status=503)
    run = synced(make(world, manual.url()))
    assert (run.status, run.error_code) == ("failed", "robots_unreachable")
    assert set(manual.asked) == {"/robots.txt"}
    told = Notification.objects.get(user=world.alice, kind="source.failed")
    assert told.base_ids == [world.base.pk]


def test_a_site_map_of_maps_packed_and_plain(world: World, manual: Site) -> None:
    maps = [f"<sitemap><loc>{manual.url(path)}</loc></sitemap>" for path in ("/one.xml.gz", "/two.txt")]
    index = f"<sitemapindex>{''.join(maps)}</sitemapindex>"
    entry = f"<url><loc>{manual.url('/start.html')}</loc></url>"
    one = f"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{entry}</urlset>"
    manual.put("/sitemap.xml", index, kind="application/xml")
    manual.put("/one.xml.gz", gzip.compress(one.encode()), kind="application/gzip")
    manual.put("/two.txt", f"{manual.url('/care/oil.html')}\nhttp://elsewhere.example/x\n", kind="text/plain")
    run = synced(make(world, manual.url("/sitemap.xml"), "sitemap"))
    assert counts(run) == {"new": 2}
    assert "/deep/a.html" not in manual.asked


def test_site_maps_that_name_one_another_and_themselves_are_read_once(world: World, manual: Site) -> None:
    def names(*paths: str) -> str:
        entries = "".join(f"<sitemap><loc>{manual.url(path)}</loc></sitemap>" for path in paths)
        return f"<sitemapindex>{entries}</sitemapindex>"

    manual.put("/sitemap.xml", names("/sitemap.xml", "/other.xml"), kind="application/xml")
    manual.put("/other.xml", names("/sitemap.xml", "/other.xml", "/list.txt"), kind="application/xml")
    manual.put("/list.txt", f"{manual.url('/start.html')}\n" * 3, kind="text/plain")
    assert counts(synced(make(world, manual.url("/sitemap.xml"), "sitemap"))) == {"new": 1}
    assert all(manual.asked.count(path) == 1 for path in ("/sitemap.xml", "/other.xml", "/list.txt", "/start.html"))


def test_the_start_of_a_site_leads_to_the_maps_that_it_names(world: World, manual: Site) -> None:
    manual.put("/robots.txt", f"Sitemap: {manual.url('/maps/all.xml')}\n", kind="text/plain")
    manual.put("/maps/all.xml", f"<urlset><url><loc>{manual.url('/start.html')}</loc></url></urlset>", kind="text/xml")
    assert counts(synced(make(world, manual.url("/"), "sitemap"))) == {"new": 1}


def test_a_page_given_as_a_site_map_is_refused_with_its_reason(world: World, manual: Site) -> None:
    manual.put("/sitemap.xml", "no map at all", kind="text/plain")
    run = synced(make(world, manual.url("/sitemap.xml"), "sitemap"))
    assert (run.status, run.error_code) == ("failed", "not_a_sitemap")


def test_limits_of_pages_and_bytes_hold(world: World, site: Site) -> None:
    site.page("/", "Start", "Where it all begins.", *[f"/p{number}.html" for number in range(30)])
    for number in range(30):
        site.page(f"/p{number}.html", f"Page {number}", f"Text of page number {number}.")
    run = synced(make(world, site.url(), page_limit=5))
    assert counts(run) == {"new": 5, "over_limit": 26}


def test_patterns_let_in_and_keep_out(world: World, manual: Site) -> None:
    source = make(world, manual.url(), depth=3, include=["/care", "/deep/*"], exclude=["*/b.html"])
    synced(source)
    assert sorted(set(manual.asked) - {"/robots.txt"}) == ["/", "/care/oil.html", "/deep/a.html"]
    verbs.change(world.principal(world.alice), source, exclude=["/deep"])
    run = again(world, source)
    assert run.counts["gone"] == 1
    assert not Document.objects.get(name="Deep.html").enabled


def test_pages_of_other_hosts_and_files_that_are_no_documents_are_not_asked_for(world: World, site: Site) -> None:
    site.page(
        "/",
        "Start",
        "Links to many things.",
        "http://localhost:1/x",
        "/a.png",
        "/b.zip",
        "/c.js",
        "mailto:a@b",
        "/d.css",
    )
    assert counts(synced(make(world, site.url()))) == {"new": 1}
    assert set(site.asked) == {"/robots.txt", "/"}


def test_linked_documents_come_in_as_what_they_are(world: World, site: Site) -> None:
    site.page("/", "Start", "With a table to take along.", "/files/prices.csv")
    site.put("/files/prices.csv", "name,price\npump,100\n", kind="text/csv")
    assert counts(synced(make(world, site.url(), folder="web"))) == {"new": 2}
    assert "web/files/prices.csv" in names(world)


def test_the_same_text_under_two_addresses_is_kept_once(world: World, site: Site) -> None:
    site.page("/", "Start", "Two addresses for one page.", "/a.html", "/print/a.html", "/alias.html")
    site.page("/a.html", "A", "One text that stands at two addresses.")
    site.page("/print/a.html", "A", "One text that stands at two addresses.")
    proper = f"<link rel=canonical href='{site.url('/a.html')}'>"
    text = "Another text, the same page by its own words."
    site.put("/alias.html", f"<html><head>{proper}</head><body><main><p>{text}</p></main></body></html>")
    run = synced(make(world, site.url()))
    assert counts(run) == {"new": 2, "skipped": 2}
    assert sorted(row["code"] for row in run.problems) == ["page_alias", "page_twin"]


def test_redirects_are_followed_inside_the_source_only(world: World, site: Site) -> None:
    site.page("/", "Start", "Two ways on.", "/old.html", "/out.html")
    site.put("/old.html", "", status=301, headers={"Location": "new.html"})
    site.page("/new.html", "New", "Where the old address leads to.")
    site.put("/out.html", "", status=302, headers={"Location": f"http://localhost:{site.port}/secret.html"})
    site.page("/secret.html", "Secret", "Another host.")
    run = synced(make(world, site.url()))
    assert counts(run) == {"new": 2, "skipped": 1}
    assert run.problems[0]["code"] == "left_source"


def test_a_redirect_to_a_forbidden_address_is_refused(world: World, site: Site) -> None:
    site.put("/", "", status=302, headers={"Location": "http://169.254.169.254/latest/meta-data/"})
    run = synced(make(world, site.url(), "page"))
    assert (run.status, run.error_code) == ("failed", "url_forbidden")


def test_addresses_inside_the_network_can_not_be_made_a_source(world: World, settings: Any) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "EGRESS_ALLOW": []}
    for url in ("http://127.0.0.1:8000/", "http://169.254.169.254/", "http://[::1]/"):
        with pytest.raises(Invalid) as refused:
            make(world, url)
        assert refused.value.code == "url_forbidden"
    for url in ("ftp://example.org/", "file:///etc/passwd", "http://user:pw@example.org/", "no address"):
        with pytest.raises(Invalid) as refused:
            make(world, url)
        assert refused.value.code == "url_invalid"


def test_a_page_that_grows_without_end_is_cut_off(world: World, site: Site, settings: Any) -> None:
    bomb = gzip.compress(bytes(80 * 1_048_576))
    site.put("/", bomb, headers={"Content-Encoding": "gzip"})
    run = synced(make(world, site.url(), "page"))
    assert (run.status, run.error_code) == ("failed", "page_too_large")


def test_cancelling_stops_at_the_next_page_and_a_new_run_goes_on(world: World, manual: Site) -> None:
    alice = world.principal(world.alice)
    source = make(world, manual.url(), depth=2)
    run = source.runs.get()
    claim = runs.claim("test", run.pk)
    assert claim is not None
    runs.cancel(alice, source)
    run.refresh_from_db()
    assert run.cancel_requested and run.status == "running"
    crawl.work(claim)
    run.refresh_from_db()
    assert run.status == "cancelled" and not Document.objects.filter(base=world.base).exists()
    assert again(world, source).status == "done"


def test_a_worker_that_lost_its_claim_writes_nothing(world: World, manual: Site) -> None:
    source = make(world, manual.url(), depth=2)
    run = source.runs.get()
    lost = runs.claim("one", run.pk)
    assert lost is not None
    SourceRun.objects.update(heartbeat_at=timezone.now() - timedelta(hours=1))
    assert runs.sweep() == 1
    crawl.work(lost)
    run.refresh_from_db()
    assert run.counts["new"] == 0 and run.attempts == 1
    assert synced(source).status == "done"


def test_a_run_whose_workers_keep_dying_fails_in_the_end(world: World, manual: Site) -> None:
    source = make(world, manual.url())
    run = source.runs.get()
    for _ in range(3):
        assert runs.claim("one", run.pk)
        SourceRun.objects.update(heartbeat_at=timezone.now() - timedelta(hours=1))
        runs.sweep()
    run.refresh_from_db()
    assert (run.status, run.error_code) == ("failed", "worker_timeout")


def test_a_schedule_starts_runs_by_itself_one_at_a_time(world: World, manual: Site) -> None:
    source = make(world, manual.url(), schedule="daily")
    synced(source)
    source.refresh_from_db()
    assert source.next_run_at and source.next_run_at > timezone.now() + timedelta(hours=23)
    assert runs.sweep() == 0
    Source.objects.update(next_run_at=timezone.now())
    assert runs.sweep() == 1
    assert runs.sweep() == 0
    run = synced(source)
    assert (run.trigger, run.number, run.status) == ("schedule", 2, "done")
    with pytest.raises(Conflict):
        runs.start(None, source, SourceRun.Trigger.SCHEDULE)
        runs.start(None, source, SourceRun.Trigger.SCHEDULE)


def test_who_may_no_longer_edit_the_base_brings_nothing_in(world: World, manual: Site) -> None:
    source = make(world, manual.url())
    Membership.objects.filter(user=world.alice).delete()
    run = synced(source)
    assert (run.status, run.error_code) == ("failed", "left_workspace")
    assert not Document.objects.filter(base=world.base).exists() and manual.asked == []


def test_a_deleted_source_leaves_its_documents_or_takes_them_along(world: World, manual: Site) -> None:
    alice = world.principal(world.alice)
    source = make(world, manual.url(), depth=1)
    synced(source)
    assert verbs.delete(alice, source) == 0
    document = Document.objects.get(name="Starting.html")
    assert document.deleted_at is None and document.origin.url == manual.url("/start.html")
    other = make(world, manual.url("/deep/b.html"), "page")
    synced(other)
    assert verbs.delete(alice, other, with_documents=True) == 1


def test_what_people_do_with_sources_is_in_the_audit_log(world: World, manual: Site) -> None:
    alice = world.principal(world.alice)
    source = make(world, manual.url(), depth=0)
    synced(source)
    verbs.change(alice, source, schedule="weekly")
    verbs.delete(alice, source)
    actions = AuditEntry.objects.filter(object_type="source").order_by("id").values_list("action", flat=True)
    assert list(actions) == ["source.create", "source.sync", "source.done", "source.change", "source.delete"]


def test_new_documents_of_a_source_get_its_tags_and_metadata_and_edits_by_hand_stay(world: World, manual: Site) -> None:
    source = make(world, manual.url(), depth=1, tags=["web", " Web ", "pump"], metadata={"year": 2026, "by": "site"})
    assert source.tags == ["web", "pump"]
    synced(source)
    rows = Document.objects.filter(base=world.base)
    assert rows and all((row.tags, row.metadata["year"]) == (["web", "pump"], 2026) for row in rows)
    alice, oil = world.principal(world.alice), Document.objects.get(name="Oil.html")
    documents.describe(alice, oil, tags=["oil"], metadata={"year": 2020})
    verbs.change(alice, source, tags=["new"], metadata={})
    manual.page("/care/oil.html", "Oil", "Change the oil twice a year.", "/fresh.html")
    manual.page("/start.html", "Starting", "Open the valve, then start the pump.", "/fresh.html")
    manual.page("/fresh.html", "Fresh", "A page that was not there before.")
    verbs.change(alice, source, depth=2)
    again(world, source)
    rows_now = {row.name: (row.tags, row.metadata.get("year")) for row in Document.objects.filter(base=world.base)}
    assert rows_now["Oil.html"] == (["oil"], 2020)
    assert rows_now["Starting.html"] == (["web", "pump"], 2026)
    assert rows_now["Fresh.html"] == (["new"], None)


def test_tags_and_metadata_that_can_not_be_kept_are_refused_with_the_source(world: World, manual: Site) -> None:
    for values, code in (({"tags": ["x" * 61]}, "tags_invalid"), ({"metadata": {"a": {}}}, "metadata_invalid")):
        with pytest.raises(Invalid) as refused:
            make(world, manual.url(), **values)
        assert refused.value.code == code
    assert not Source.objects.filter(base=world.base).exists()
