"""Why is it not running? Facts are read first; the sentences are a pure function of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, select

from sloppyjobs.admin.workers import live_workers, works_on
from sloppyjobs.model import Job
from sloppyjobs.states import FINISHED, Status
from sloppyjobs.storage import SqlStorage
from sloppyjobs.storage.counting import Count
from sloppyjobs.views import CappedCount, Explanation, Reason, WorkerView


class Facts(NamedTuple):
    """What bears on a job that has not finished."""

    now: datetime
    queue_paused: bool
    queue_paused_until: datetime | None
    workers: Sequence[WorkerView]
    ahead: CappedCount


def facts_about(storage: SqlStorage, job: Job) -> Facts:
    """The facts, in a bounded number of bounded reads."""
    return storage.read(lambda c: _facts(storage, storage.bounded(c), job))


def _facts(storage: SqlStorage, connection: Connection, job: Job) -> Facts:
    now = storage.now(connection)
    queues = storage.tables.queues
    query = select(queues.c.paused_at, queues.c.paused_until).where(queues.c.name == job.queue)
    paused_at, until = connection.execute(query).one_or_none() or (None, None)
    workers = live_workers(storage.recent_workers(connection), now)
    ahead = storage.jobs_ahead(connection, job) if job.status is Status.QUEUED else Count(0, False)
    return Facts(
        now,
        paused_at is not None and (until is None or until > now),
        until,
        workers,
        CappedCount(ahead.number, ahead.more),
    )


def explain(job: Job, error: str | None, facts: Facts) -> Explanation:
    """The answer for a job; ``error`` is its redacted error message."""
    if job.status in FINISHED:
        reasons = [_ended(job, error)]
    elif job.status is Status.PROCESSING:
        reasons = [_running(job, facts)]
    elif job.status is Status.PAUSED:
        reasons = [_paused(job)]
    elif job.status is Status.WAITING:
        reasons = [Reason("waiting", "It waits for other jobs to finish.")]
    elif job.status in (Status.SCHEDULED, Status.RETRYING):
        reasons = [_not_due(job, facts), *_obstacles(job, facts)]
    else:
        reasons = [*_obstacles(job, facts), *_in_line(job, facts)]
    if job.attempt_count and job.status not in FINISHED:
        reasons.append(_attempts(job, error))
    return Explanation(job.id, job.status, reasons[0].text, tuple(reasons))


def _ended(job: Job, error: str | None) -> Reason:
    when = f" at {_shown(job.finished_at)}" if job.finished_at else ""
    if job.status is Status.DEAD:
        kind = job.error_type or job.error_code or "an unknown error"
        text = f"It is dead: attempt {job.attempt_count} of {job.max_attempts} failed with {kind}"
        return Reason("dead", f"{text}: {error}" if error else f"{text}.")
    if job.status is Status.SUCCEEDED:
        attempts = "" if job.attempt_count == 1 else f" on attempt {job.attempt_count}"
        return Reason("finished", f"It succeeded{attempts}{when}.")
    if job.status is Status.CANCELLED:
        return Reason("finished", f"It was cancelled{when}; it will not run.")
    return Reason("finished", "It was deleted; it will not run, and a purge will remove it.")


def _running(job: Job, facts: Facts) -> Reason:
    until = job.locked_until
    if until is not None and until < facts.now:
        text = (
            f"Its lease has expired: {job.locked_by} had it until {_shown(until)} and was not heard of since. "
            "The next sweep of a worker returns it to the queue, or to the dead."
        )
        return Reason("lease_expired", text, until)
    text = f"It is running: {job.locked_by} holds it"
    return Reason("running", f"{text} until {_shown(until)} and renews the lease." if until else f"{text}.", until)


def _paused(job: Job) -> Reason:
    back = job.paused_from or Status.QUEUED
    return Reason("paused", f"It is paused; resumed, it is {back} again.")


def _not_due(job: Job, facts: Facts) -> Reason:
    if job.run_at <= facts.now:
        return Reason(
            "next",
            f"It was due at {_shown(job.run_at)}; the next sweep of a worker puts it into the queue.",
            job.run_at,
        )
    wait = _span((job.run_at - facts.now).total_seconds())
    if job.status is Status.RETRYING:
        text = f"It is not due: attempt {job.attempt_count + 1} starts in {wait}, at {_shown(job.run_at)}."
    else:
        text = f"It is not due: it runs in {wait}, at {_shown(job.run_at)}."
    return Reason("not_due", text, job.run_at)


def _obstacles(job: Job, facts: Facts) -> Iterable[Reason]:
    if facts.queue_paused:
        until = facts.queue_paused_until
        end = f"until {_shown(until)}" if until else "until somebody resumes it"
        yield Reason("queue_paused", f"Its queue {job.queue!r} is paused {end}.", until)
    on_queue = [worker for worker in facts.workers if works_on(worker, job.queue)]
    if not on_queue:
        others = f"; {len(facts.workers)} live on other queues" if facts.workers else ""
        yield Reason("no_worker", f"No live worker takes jobs from its queue {job.queue!r}{others}.")
    elif not any(job.name in worker.names for worker in on_queue):
        who = "the live worker" if len(on_queue) == 1 else f"any of the {len(on_queue)} live workers"
        yield Reason("no_handler", f"No handler for {job.name!r} is known to {who} of its queue {job.queue!r}.")


def _in_line(job: Job, facts: Facts) -> Iterable[Reason]:
    if facts.ahead:
        noun = "job is" if facts.ahead == CappedCount(1) else "jobs are"
        yield Reason("jobs_ahead", f"{facts.ahead} {noun} ahead of it in its queue {job.queue!r}.")
    else:
        yield Reason("next", f"It is next in its queue {job.queue!r}: the next free worker takes it.")


def _attempts(job: Job, error: str | None) -> Reason:
    text = f"{job.attempt_count} of {job.max_attempts} attempts are used"
    return Reason("attempts", f"{text}; the last error was: {error}" if error else f"{text}.")


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _span(seconds: float) -> str:
    """A duration in its two largest units."""
    left = timedelta(seconds=max(1, round(seconds)))
    minutes, s = divmod(left.seconds, 60)
    hours, m = divmod(minutes, 60)
    parts = [f"{n} {unit}" for n, unit in ((left.days, "d"), (hours, "h"), (m, "min"), (s, "s")) if n]
    return " ".join(parts[:2])
