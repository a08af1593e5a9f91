"""One command on many jobs, in chunks: each is found, then done in one transaction, each job fenced on its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from sloppyjobs import errors
from sloppyjobs.admin.actions import Action, action_named, decision
from sloppyjobs.admin.bulk_progress import Progress, digest_of, read_cursor, tally_of
from sloppyjobs.admin.filters import command_given, job_query
from sloppyjobs.admin.presenter import Presenter
from sloppyjobs.domain import options
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.states import Status
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.storage.ports import AuditPort, ListPort, RedactionPort
from sloppyjobs.storage.ports.operators import Command, Decide, JobState, Outcome, Step
from sloppyjobs.storage.ports.reads import JobQuery
from sloppyjobs.views import BulkResult

LIMIT = 10_000
CHUNK = 500
"""Jobs in one transaction: few enough that nobody waits long for their locks."""
PAGES = 100
"""Pages that one call reads to find ``LIMIT`` jobs. A filter that finds few among millions is continued by a cursor."""
SAMPLE = 10


class Request(NamedTuple):
    """A bulk command as it was asked for, checked."""

    verb: Action
    wanted: JobQuery
    filter: Mapping[str, Any]
    limit: int
    at_once: int
    command: Command


class Bulk:
    """Bulk commands over one store."""

    def __init__(self, lists: ListPort, audit: AuditPort, redactions: RedactionPort, definitions: Definitions) -> None:
        self._lists = lists
        self._audit = audit
        self._redactions = redactions
        self._definitions = definitions

    def run(
        self,
        action: str,
        filter: Mapping[str, Any],
        limit: int,
        dry_run: bool,
        actor: str | None,
        reason: str | None,
        scope: Iterable[str] | None,
        at_once: int | None,
        cursor: str | None,
    ) -> BulkResult:
        """Find, then act or only tell; see ``Admin.bulk``."""
        verb = action_named(action)
        asked = Request(
            verb,
            _wanted(verb, filter, scope),
            filter,
            options.whole("limit", limit, least=1, most=LIMIT),
            LIMIT if at_once is None else options.whole("at_once", at_once, least=1, most=LIMIT),
            command_given(verb.name, actor, reason),
        )
        if options.truth("dry_run", dry_run):
            if cursor is not None:
                raise options.refuse("cursor", cursor, "continues a command; a dry run is always of the whole")
            return self._preview(asked)
        digest = digest_of(verb.name, asked.wanted)
        begun = None if cursor is None else read_cursor(cursor, digest)
        return self._act(asked, begun or Progress(digest=digest, mark=self._audit.begin_command()))

    def _act(self, asked: Request, progress: Progress) -> BulkResult:
        """Chunk by chunk, until the filter finds no more, or one of the bounds is met."""
        fresh, touched = progress.after is None, list[Job]()
        most = min(asked.limit, progress.matched + asked.at_once)
        pages = _pages(asked.at_once)
        more = progress.matched < asked.limit
        while more and pages and progress.matched < most:
            pages -= 1
            found = self._find(asked.wanted, progress.after, min(CHUNK, most - progress.matched))
            outcomes = self._command(asked, found.jobs, progress.mark)
            progress = progress.with_chunk(outcomes, found.resume)
            touched += _touched(found.jobs, outcomes)[: SAMPLE - len(touched)]
            more = found.resume is not None
        if fresh and not progress.matched and not more:
            detail = {"filter": _plain(asked.filter), "matched": 0, **tally_of(())}
            self._audit.record(asked.command, "jobs", f"bulk {asked.verb.name}", detail)
        unfinished = more and progress.matched < asked.limit
        return BulkResult(
            action=asked.verb.name,
            dry_run=False,
            matched=progress.matched,
            more=more,
            done=progress.done,
            skipped=_with_missing(progress.skipped, asked.wanted, progress.matched, more=more),
            sample_ids=tuple(job.id for job in touched),
            next_cursor=progress.cursor() if unfinished else None,
        )

    def _command(self, asked: Request, jobs: Sequence[Job], mark: int) -> list[Outcome]:
        if not jobs:
            return []
        decide = _fenced({job.id: job for job in jobs}, decision(asked.verb, self._definitions))

        def detail(outcomes: Sequence[Outcome]) -> dict[str, Any]:
            return {"filter": _plain(asked.filter), "matched": len(jobs), **tally_of(outcomes)}

        ids = [job.id for job in jobs]
        return self._audit.command_jobs(ids, decide, asked.command, since=mark, detail=detail)

    def _preview(self, asked: Request) -> BulkResult:
        jobs: list[Job] = []
        after: tuple[Any, ...] | None = None
        more = True
        for _ in range(PAGES):
            found = self._find(asked.wanted, after, min(CHUNK, asked.limit - len(jobs)))
            jobs += found.jobs
            after, more = found.resume, found.resume is not None
            if not more or len(jobs) >= asked.limit:
                break
        decide = decision(asked.verb, self._definitions)
        outcomes = [_foreseen(job, decide) for job in jobs]
        tally = tally_of(outcomes)
        first = _touched(jobs, outcomes)[:SAMPLE]
        presenter = Presenter(self._definitions, self._redactions.by_name())
        return BulkResult(
            action=asked.verb.name,
            dry_run=True,
            matched=len(jobs),
            more=more,
            done=tally["done"],
            skipped=_with_missing(tally["skipped"], asked.wanted, len(jobs), more=more),
            sample_ids=tuple(job.id for job in first),
            sample=tuple(presenter.row(job) for job in first),
        )

    def _find(self, wanted: JobQuery, after: tuple[Any, ...] | None, limit: int) -> _Chunk:
        """The oldest jobs beyond a key that the filter finds, and the key after which to go on."""
        found = self._lists.find(wanted, "created_at", after, backward=False, limit=limit)
        return _Chunk([job for _, job in found.jobs], found.resume)


class _Chunk(NamedTuple):
    jobs: list[Job]
    resume: tuple[Any, ...] | None


def _pages(at_once: int) -> int:
    return max(1, PAGES * at_once // LIMIT)


def _wanted(verb: Action, filter: Mapping[str, Any], scope: Iterable[str] | None) -> JobQuery:
    if not isinstance(filter, Mapping):
        raise options.refuse("filter", filter, "must be a mapping, such as {'queue': 'emails'}")
    wanted = job_query(filter, scope)
    causes = [name for name in ("error_type", "error_frame") if name in filter]
    if not causes and all(value is None for value in filter.values()):
        raise options.refuse("filter", filter, "must narrow the jobs; an empty filter would be all of them")
    if filter.get("status") is not None:
        return wanted
    # Without a status, what the action can be done to; jobs named by id are all answered for.
    statuses = tuple(Status) if wanted.ids is not None else tuple(s for s in Status if s in verb.sources)
    return msgspec.structs.replace(wanted, statuses=statuses)


def _fenced(expected: Mapping[str, Job], decide: Decide) -> Decide:
    """The decision, for jobs that are still as they were when the filter found them."""

    def fenced(job: JobState) -> Step | None:
        seen = expected[job.id]
        if (job.status, job.attempt_count) != (seen.status, seen.attempt_count):
            raise errors.InvalidTransition(f"became {job.status} meanwhile", status=job.status)
        return _in_short(job, decide)

    return fenced


def _foreseen(job: Job, decide: Decide) -> Outcome:
    state = JobState(job.id, job.name, job.status, job.attempt_count, job.locked_by, job.paused_from)
    try:
        step = _in_short(state, decide)
    except errors.InvalidTransition as error:
        return Outcome(job.id, str(error))
    return Outcome(job.id, None if step is not None else f"already {job.status}")


def _in_short(job: JobState, decide: Decide) -> Step | None:
    # The full sentence names the job; a tally counts jobs with the same reason.
    try:
        return decide(job)
    except errors.InvalidTransition:
        raise errors.InvalidTransition(f"is {job.status}", status=job.status) from None


def _touched(jobs: Sequence[Job], outcomes: Sequence[Outcome]) -> list[Job]:
    touched = {outcome.job_id for outcome in outcomes if outcome.skipped is None}
    return [job for job in jobs if job.id in touched]


def _with_missing(skipped: Mapping[str, int], wanted: JobQuery, matched: int, *, more: bool) -> dict[str, int]:
    missing = len(wanted.ids) - matched if wanted.ids is not None and not more else 0
    return dict(skipped) | ({"unknown, or outside the filter": missing} if missing > 0 else {})


def _plain(filter: Mapping[str, Any]) -> dict[str, Any]:
    """The filter for the audit trail; a long list of ids as its length."""
    shown: dict[str, Any] = {}
    for name, value in filter.items():
        if value is None or isinstance(value, str | datetime):
            shown[name] = value
        else:
            items = [str(item) for item in value]
            shown[name] = items if len(items) <= 20 else f"{len(items)} of them"
    return shown
