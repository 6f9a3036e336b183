"""One slice of a synchronisation: visit pages of a source, one after the other, as its hosts allow.

Between pages everything stands in the database, so a run goes on after a restart where it was, in any worker.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from knowledge.access import access_base
from knowledge.models import Role, Source, SourcePage, SourceRun
from knowledge.sources import keeping, runs
from knowledge.sources.addresses import canonical, in_reach, key_of, origin, same_site
from knowledge.sources.fetching import PAGE_BYTES, Fetched, fetch
from knowledge.sources.hosts import Rules, Turn, rules_of
from knowledge.sources.keeping import Visit
from knowledge.sources.reading import HTML, Read, read
from knowledge.sources.runs import RunCancelled, RunClaim
from knowledge.sources.sitemaps import MAP_BYTES, read_map
from portal.kernel.errors import ArchwayError, Conflict, Denied, Invalid, NotFound, Unavailable
from portal.kernel.principal import Principal, for_worker

logger = logging.getLogger(__name__)

TRIES = 3
AWAY_SECONDS = 15.0
PAUSES = (5.0, 30.0)  # before the second and the third try of a page
LONGEST_PAUSE = 120.0
_GONE = (404, 410)
_Judge = Callable[[SourcePage], Visit]


class PageGone(NotFound):
    """The server says that the page is not there (404, 410)."""

    default_code = "page_gone"


@dataclass(slots=True)
class Slice:
    """One worker's turn at a run."""

    claim: RunClaim
    holder: str
    deadline: float = field(default_factory=lambda: time.monotonic() + settings.ARCHWAY["SLICE_SECONDS"])

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.deadline


def work(claim: RunClaim) -> None:
    """Spend one slice on a claimed run and leave it in an honest state, whatever happens."""
    try:
        _work_to_an_end(claim)
    except RunCancelled:
        runs.end(claim, SourceRun.Status.CANCELLED)
    except Conflict as error:
        if error.code != "claim_lost":
            raise
        logger.info("run %s: claim %s was lost", claim.run_id, claim.number)


def _work_to_an_end(claim: RunClaim) -> None:
    try:
        _work(Slice(claim, f"{claim.run_id}.{claim.number}"))
    except Unavailable as error:
        logger.warning("run %s waits: %s", claim.run_id, error.code)
        runs.set_aside(claim, AWAY_SECONDS)
    except (Denied, NotFound) as error:
        # Whoever made the source may no longer put documents into the base.
        runs.end(claim, SourceRun.Status.FAILED, error)


def _work(turn: Slice) -> None:
    while not turn.over:
        with transaction.atomic():
            run = runs.lock(turn.claim)
            principal = _principal(run.source)
            page = _next_page(run)
        if page is None:
            wait = _waiting(run)
            if wait is None:
                _finish(turn.claim)
            else:
                runs.set_aside(turn.claim, wait)
            return
        seconds = _visit(turn, principal, run, page)
        if seconds:
            runs.set_aside(turn.claim, seconds)
            return
    runs.set_aside(turn.claim)


def _principal(source: Source) -> Principal:
    """Documents come in as whoever made the source: with their rights of today, and on their share of the work."""
    if source.created_by_id is None:
        raise Denied("The person who asked for this no longer belongs to the workspace.", code="left_workspace")
    principal = for_worker(source.created_by_id, source.base.workspace_id)
    access_base(principal, source.base.uid, Role.EDITOR)
    return principal


def _open_pages(run: SourceRun) -> Q:
    return Q(source_id=run.source_id, queued_run=run.number, visited_run__lt=run.number)


def _next_page(run: SourceRun) -> SourcePage | None:
    now = timezone.now()
    rows = SourcePage.objects.filter(_open_pages(run)).filter(Q(not_before__isnull=True) | Q(not_before__lte=now))
    # The nearest first: with a limit of pages, what lies closest to the address given is what people meant.
    return rows.select_related("document").order_by("depth", "id").first()


def _waiting(run: SourceRun) -> float | None:
    """Seconds until a page of the run may be tried again; None when all are done."""
    row = SourcePage.objects.filter(_open_pages(run)).order_by(F("not_before").asc(nulls_first=True)).first()
    if row is None:
        return None
    return max(0.05, (row.not_before - timezone.now()).total_seconds()) if row.not_before else 0.05


# -- one page --


def _visit(turn: Slice, principal: Principal, run: SourceRun, page: SourcePage) -> float:
    """Visit one page; returns the seconds to wait first when its host may not be asked yet."""
    source = run.source
    if not page.is_map and not in_reach(source, page.url):
        _settle(turn, principal, page, lambda row: _out_of_reach(principal, source, row))
        return 0.0
    place = Turn(page.url, turn.holder)
    wait = place.take()
    if wait:
        return wait
    delay = float(settings.ARCHWAY["CRAWL_DELAY"])
    try:
        rules = rules_of(page.url)
        delay = rules.delay
        if not rules.allows(page.url):
            error = Denied("The site does not let programs fetch this page (robots.txt).", code="robots_forbidden")
            delay = 0.0
            _settle(turn, principal, page, lambda row: keeping.troubled(row, "skipped", error))
            return 0.0
        answer = fetch(
            page.url,
            etag="" if page.is_map else page.etag,
            last_modified="" if page.is_map else page.last_modified,
            limit=MAP_BYTES if page.is_map else _limit(source, run),
        )
    except ArchwayError as error:
        _fault(turn, principal, page, error, 0.0)
        return 0.0
    finally:
        place.leave(delay)
    _answered(turn, principal, run, page, answer, rules)
    return 0.0


def _limit(source: Source, run: SourceRun) -> int:
    left = source.limit_mb * 1_048_576 - run.size
    return max(1_048_576, min(PAGE_BYTES, left))


def _out_of_reach(principal: Principal, source: Source, page: SourcePage) -> Visit:
    error = Invalid("The source's settings no longer let this page in.", code="out_of_reach")
    return keeping.gone(principal, source, page, error)


def _answered(
    turn: Slice, principal: Principal, run: SourceRun, page: SourcePage, answer: Fetched, rules: Rules
) -> None:
    trouble = _error_of(answer)
    if trouble is not None:
        if answer.status in _GONE:
            _settle(turn, principal, page, lambda row: keeping.gone(principal, run.source, row, trouble), answer)
        else:
            _fault(turn, principal, page, trouble, answer.retry_after)
        return
    if answer.status == 304:
        _settle(turn, principal, page, lambda row: keeping.unchanged(principal, row))
        return
    try:
        if page.is_map:
            _map(turn, run, page, answer, rules)
            return
        _refuse_elsewhere(run.source, page, answer, rules)
        found = read(answer, main_only=run.source.main_only)
    except ArchwayError as error:
        refusal = error
        outcome = "failed" if error.code in ("too_slow", "out_of_memory", "parser_crashed") else "skipped"
        _settle(turn, principal, page, lambda row: keeping.troubled(row, outcome, refusal), answer)
        return
    _keep(turn, principal, page, answer, found)


def _error_of(answer: Fetched) -> ArchwayError | None:
    status = answer.status
    if status in (200, 304):
        return None
    if status in _GONE:
        return PageGone("The site says that this page is not there (%(status)s).", status=status)
    if status in (401, 403, 407):
        return Denied("The site does not show this page to everybody (%(status)s).", code="page_closed", status=status)
    if status >= 500 or status in (408, 425, 429):
        return Unavailable("The site answered with an error (%(status)s).", code="site_error", status=status)
    return Invalid("The site answered with an error (%(status)s).", code="site_error", status=status)


def _refuse_elsewhere(source: Source, page: SourcePage, answer: Fetched, rules: Rules) -> None:
    """A redirect may lead out of the source, or to a page that is known already under its own address."""
    final = canonical(answer.address)
    if final == page.url:
        return
    if source.kind == Source.Kind.PAGE and page.url == source.url:
        return  # what was asked for by hand is taken wherever it has moved
    if not in_reach(source, final):
        raise Invalid("This address leads to %(url)s, which is not part of the source.", code="left_source", url=final)
    if not rules.allows(final) and same_site(page.url, final):
        raise Denied("The site does not let programs fetch this page (robots.txt).", code="robots_forbidden")
    other = SourcePage.objects.filter(source=source, url_key=key_of(final)).exclude(pk=page.pk).first()
    if other is not None:
        raise Conflict("The same text stands at %(url)s.", code="page_twin", url=final)


def _fault(turn: Slice, principal: Principal, page: SourcePage, error: ArchwayError, pause: float) -> None:
    """Something that may pass is tried again, three times in all; then the page has failed and its document stays."""
    if error.code == "redis_away":
        raise error
    if error.retryable and page.tries + 1 < TRIES:
        wait = min(max(pause, PAUSES[page.tries]), LONGEST_PAUSE)
        with transaction.atomic():
            run = runs.lock(turn.claim)
            SourcePage.objects.filter(pk=page.pk).update(
                tries=F("tries") + 1, not_before=timezone.now() + timedelta(seconds=wait)
            )
            run.heartbeat_at = timezone.now()
            run.save(update_fields=["heartbeat_at"])
        return
    _settle(turn, principal, page, lambda row: keeping.troubled(row, "failed", error))


# -- writing down how a visit ended, under the claim --


def _settle(turn: Slice, principal: Principal, page: SourcePage, judge: _Judge, answer: Fetched | None = None) -> None:
    with transaction.atomic():
        run = runs.lock(turn.claim)
        row = SourcePage.objects.select_for_update(of=("self",)).select_related("document", "source").get(pk=page.pk)
        row.source = run.source
        visit = judge(row)
        _write(run, row, visit, answer)


def _keep(turn: Slice, principal: Principal, page: SourcePage, answer: Fetched, found: Read) -> None:
    """The document, the page's memory, the links and the run's counts: all of it, or nothing."""
    with transaction.atomic():
        run = runs.lock(turn.claim)
        row = SourcePage.objects.select_for_update(of=("self",)).select_related("document", "source").get(pk=page.pk)
        row.source = run.source
        alias = _alias(run, row, found)
        try:
            with transaction.atomic():
                visit = alias or keeping.keep(principal, row, answer, found)
        except ArchwayError as error:
            row.refresh_from_db()
            row.source = run.source
            visit = keeping.troubled(row, "skipped" if error.code == "duplicate" else "failed", error)
        row.http_status = answer.status
        _write(run, row, visit, answer)
        if run.source.kind == Source.Kind.SITE and row.depth < run.source.depth:
            _queue(run, found.links, row.depth + 1)


def _alias(run: SourceRun, page: SourcePage, found: Read) -> Visit | None:
    """A page that names another of the source as its proper address is left to that one."""
    if not found.canonical or page.url == run.source.url:
        return None
    try:
        proper = canonical(found.canonical)
    except Invalid:
        return None
    if proper == page.url or not in_reach(run.source, proper) or page.document_id is not None:
        return None
    _queue(run, (proper,), page.depth)
    error = Conflict("The page names %(url)s as its proper address.", code="page_alias", url=proper)
    return keeping.troubled(page, "skipped", error)


def _write(run: SourceRun, page: SourcePage, visit: Visit, answer: Fetched | None) -> None:
    page.visited_run, page.fetched_at = run.number, timezone.now()
    if answer is not None:
        page.http_status = answer.status
    page.save()
    runs.count(run, page, visit.outcome, visit.error, len(answer.body) if answer else 0)


def _map(turn: Slice, run: SourceRun, page: SourcePage, answer: Fetched, rules: Rules) -> None:
    """A site map: its pages and further maps are queued. A page in its place leads to the maps that the site names."""
    if answer.content_type in HTML and page.url == run.source.url:
        pages: tuple[str, ...] = ()
        maps = tuple(rules.sitemaps) or (f"{origin(page.url)}/sitemap.xml",)
    else:
        found = read_map(answer.body)
        pages, maps = found.pages, found.maps
    with transaction.atomic():
        locked = runs.lock(turn.claim)
        row = SourcePage.objects.select_for_update().get(pk=page.pk)
        row.visited_run, row.fetched_at, row.http_status = locked.number, timezone.now(), answer.status
        row.state, row.last_outcome, row.error_code, row.error_message = SourcePage.State.KEPT, "", "", ""
        row.save()
        if row.depth < 2:
            _queue(locked, maps, row.depth + 1, are_maps=True)
        _queue(locked, pages, 1)
        locked.heartbeat_at = timezone.now()
        locked.size += len(answer.body)
        locked.save(update_fields=["heartbeat_at", "size"])


def _queue(run: SourceRun, addresses: tuple[str, ...], depth: int, *, are_maps: bool = False) -> None:
    """Want pages in this run, up to the source's limits; how many more there were is counted."""
    source = run.source
    wanted: dict[str, str] = {}
    for address in addresses:
        try:
            proper = canonical(address)
        except Invalid:
            continue
        if same_site(source.url, proper) if are_maps else in_reach(source, proper):
            wanted[key_of(proper)] = proper
    queued = source.pages.filter(queued_run=run.number, is_map=False)
    known = set(source.pages.filter(queued_run=run.number, url_key__in=wanted).values_list("url_key", flat=True))
    fresh = {key: url for key, url in wanted.items() if key not in known}
    room = source.page_limit - queued.count() if not are_maps else 200
    if run.size >= source.limit_mb * 1_048_576:
        room = 0
    taken = dict(list(fresh.items())[: max(0, room)])
    if len(taken) < len(fresh):
        run.counts = {**run.counts, "over_limit": run.counts.get("over_limit", 0) + len(fresh) - len(taken)}
        run.save(update_fields=["counts"])
    SourcePage.objects.bulk_create(
        [SourcePage(source=source, url=url, url_key=key, depth=depth, is_map=are_maps) for key, url in taken.items()],
        ignore_conflicts=True,
    )
    source.pages.filter(url_key__in=taken).update(queued_run=run.number, tries=0, not_before=None, depth=depth)


def _finish(claim: RunClaim) -> None:
    """A run whose own address could not be read has failed, when nothing else came of it either."""
    with transaction.atomic():
        run = runs.lock(claim)
        root = run.source.pages.filter(url_key=key_of(run.source.url)).first()
        good = sum(run.counts.get(name, 0) for name in ("new", "changed", "unchanged"))
        if good or root is None or not root.error_code:
            runs.end(claim, SourceRun.Status.DONE)
            return
        error = ArchwayError(root.error_message, code=root.error_code, **root.error_params)
        runs.end(claim, SourceRun.Status.FAILED, error)
