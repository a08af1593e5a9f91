"""One command on many jobs: found first, then done in small transactions, each job fenced on its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from sloppyjobs import errors, options
from sloppyjobs.admin.actions import Action, action_named, decision
from sloppyjobs.admin.filters import job_filter, order_given
from sloppyjobs.admin.showing import Showing
from sloppyjobs.definitions import Definitions
from sloppyjobs.model import Job
from sloppyjobs.states import Status
from sloppyjobs.storage import SqlStorage
from sloppyjobs.storage.audit import Order, Outcome
from sloppyjobs.storage.commands import Decide, Step
from sloppyjobs.storage.listing import JobFilter
from sloppyjobs.views import BulkResult

LIMIT = 10_000
BATCH = 100
"""Jobs in one transaction: few enough that nobody waits long for their locks."""
LOOKS = 100
"""Pages that are read to find the jobs. A filter that finds few among millions says that there may be more."""
SAMPLE = 10
_PAGE = 500


class _Matched(NamedTuple):
    jobs: list[Job]
    more: bool


class Bulk:
    """Bulk commands over one storage."""

    def __init__(self, storage: SqlStorage, definitions: Definitions) -> None:
        self._storage = storage
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
    ) -> BulkResult:
        """Find, then act or only tell; see ``Admin.bulk``."""
        verb = action_named(action)
        most = options.whole("limit", limit, least=1, most=LIMIT)
        wanted = _wanted(verb, filter, scope)
        order = order_given(verb.name, actor, reason)
        matched = self._match(wanted, most)
        missing = len(wanted.ids) - len(matched.jobs) if wanted.ids is not None and not matched.more else 0
        decide = decision(verb, self._definitions)
        if dry_run:
            outcomes = self._preview(matched.jobs, decide)
        else:
            outcomes = self._act(matched.jobs, verb, decide, order, filter)
        return self._result(verb, matched, outcomes, missing, dry_run)

    def _match(self, wanted: JobFilter, limit: int) -> _Matched:
        """The oldest jobs that the filter finds, up to the limit."""
        jobs: list[Job] = []
        after = None
        for _ in range(LOOKS):
            found = self._storage.find_jobs(wanted, "created_at", after, backward=False, limit=_PAGE)
            jobs += [job for _, job in found.jobs]
            after = found.resume
            if after is None or len(jobs) > limit:
                break
        return _Matched(jobs[:limit], after is not None or len(jobs) > limit)

    def _preview(self, jobs: list[Job], decide: Decide) -> list[Outcome]:
        now = self._storage.clock.now()
        return [_foreseen(job, decide, now) for job in jobs]

    def _act(
        self, jobs: list[Job], verb: Action, decide: Decide, order: Order, filter: Mapping[str, Any]
    ) -> list[Outcome]:
        outcomes: list[Outcome] = []
        try:
            for start in range(0, len(jobs), BATCH):
                batch = jobs[start : start + BATCH]
                fenced = _fenced({job.id: job for job in batch}, decide)
                outcomes += self._storage.command_jobs([job.id for job in batch], fenced, order)
        finally:
            # Also where a batch failed: those before it are done.
            detail = {"filter": _plain(filter), "matched": len(jobs), **_tally(outcomes)}
            self._storage.record_audit(order, "jobs", f"bulk {verb.name}", detail)
        return outcomes

    def _result(
        self, verb: Action, matched: _Matched, outcomes: list[Outcome], missing: int, dry_run: bool
    ) -> BulkResult:
        tally = _tally(outcomes)
        skipped = tally["skipped"] | ({"unknown, or outside the filter": missing} if missing else {})
        touched = {outcome.job_id for outcome in outcomes if outcome.skipped is None}
        first = [job for job in matched.jobs if job.id in touched][:SAMPLE]
        showing = Showing(self._definitions, self._storage.redactions())
        return BulkResult(
            action=verb.name,
            dry_run=dry_run,
            matched=len(matched.jobs),
            more=matched.more,
            done=tally["done"],
            skipped=skipped,
            sample_ids=tuple(job.id for job in first),
            sample=tuple(showing.row(job) for job in first) if dry_run else (),
        )


def _wanted(verb: Action, filter: Mapping[str, Any], scope: Iterable[str] | None) -> JobFilter:
    if not isinstance(filter, Mapping):
        raise options.refuse("filter", filter, "must be a mapping, such as {'queue': 'emails'}")
    wanted = job_filter(filter, scope)
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

    def fenced(job: Job, retry_json: str | None, now: datetime) -> Step | None:
        seen = expected[job.id]
        if (job.status, job.attempt_count) != (seen.status, seen.attempt_count):
            raise errors.InvalidTransition(f"became {job.status} meanwhile")
        return _in_short(job, lambda: decide(job, retry_json, now))

    return fenced


def _foreseen(job: Job, decide: Decide, now: datetime) -> Outcome:
    try:
        step = _in_short(job, lambda: decide(job, None, now))
    except errors.InvalidTransition as error:
        return Outcome(job.id, str(error))
    return Outcome(job.id, None if step is not None else f"already {job.status}")


def _in_short(job: Job, decided: Any) -> Step | None:
    # The full sentence names the job; a tally counts jobs with the same reason.
    try:
        step: Step | None = decided()
    except errors.InvalidTransition:
        raise errors.InvalidTransition(f"is {job.status}") from None
    return step


def _tally(outcomes: list[Outcome]) -> dict[str, Any]:
    skipped = Counter(outcome.skipped for outcome in outcomes if outcome.skipped is not None)
    return {"done": len(outcomes) - skipped.total(), "skipped": dict(sorted(skipped.items()))}


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
