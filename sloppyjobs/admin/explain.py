"""Why is it not running? Facts are read first; the sentences are a pure function of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from sloppyjobs import errors
from sloppyjobs.admin.explain_batches import of_batch
from sloppyjobs.admin.explain_limits import not_limited, waits_for_permit
from sloppyjobs.admin.explain_parents import decided_meanwhile, kept_by, waits_for_jobs
from sloppyjobs.admin.job_facts import Facts
from sloppyjobs.admin.sentences import At, Part, Relative, Sentence, Since, Write, plain, span
from sloppyjobs.admin.workers import works_on
from sloppyjobs.domain.ageing import rising
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.payload import version_of
from sloppyjobs.domain.states import FINISHED, AttemptStatus, Status, WaitingFor
from sloppyjobs.domain.steps import StepKind
from sloppyjobs.views import CappedCount, Explanation, Reason, WorkerView

OVERRUN_SECONDS = 5.0
"""How much longer than its timeout a job may have been held before it counts as overrun.

An attempt begins with its claim, its timeout with the handler; the worker ends it a moment after that.
"""
NO_ERRORS = frozenset({errors.SNOOZED, errors.RELEASED, errors.CANCELLED, errors.PayloadNewer.code})
"""Codes that are stored like those of errors, though nothing has failed."""


class Told(NamedTuple):
    """A reason before somebody has written it down."""

    code: str
    sentence: Sentence
    until: datetime | None = None


def explain(job: Job, error: str | None, facts: Facts, write: Write = plain) -> Explanation:
    """The answer for a job; ``error`` is its redacted error message."""
    reasons = tuple(Reason(one.code, write(one.sentence, facts.now), one.until) for one in _told(job, error, facts))
    return Explanation(job.id, job.status, reasons[0].text, reasons)


def _told(job: Job, error: str | None, facts: Facts) -> Iterable[Told]:
    if job.status in FINISHED:
        yield _ended(job, error, facts)
    elif job.status is Status.PROCESSING:
        yield _running(job, facts)
    elif job.status is Status.PAUSED:
        yield _paused(job, facts)
    elif job.status is Status.WAITING and job.waiting_for == WaitingFor.PERMIT and facts.line is not None:
        yield Told("permit", waits_for_permit(facts.line), facts.line.next_token_at)
        yield from _obstacles(job, facts)
        yield from _rises(job, facts)
    elif job.status is Status.WAITING and job.waiting_for in (WaitingFor.SLEEP, WaitingFor.SIGNAL):
        yield from _suspended(facts)
    elif job.status is Status.WAITING:
        yield from _waits(facts)
    elif job.status in (Status.SCHEDULED, Status.RETRYING):
        yield _not_due(job, facts)
        yield from _too_new(job)
        yield from _obstacles(job, facts)
    else:
        obstacles = list(_obstacles(job, facts))
        yield from obstacles
        yield from _in_line(job, facts, free=not obstacles)
        yield from _rises(job, facts)
        if facts.line is not None and facts.line.limit is None and job.resource is not None:
            yield Told("not_limited", not_limited(job.resource))
    yield from _expires(job, facts)
    yield from _stuck(job, facts)
    if facts.batch is not None:
        yield Told("batch", (of_batch(job, facts.batch),))
    if job.attempt_count and job.status not in FINISHED:
        yield _attempts(job, error)


# How it ended


def _ended(job: Job, error: str | None, facts: Facts) -> Told:
    if job.status is Status.DEAD:
        return _dead(job, error)
    if job.status is Status.SUCCEEDED:
        attempt = "" if job.attempt_count == 1 else f" on attempt {job.attempt_count}"
        when: Sentence = (" at ", At(job.finished_at)) if job.finished_at else ()
        return Told("finished", (f"It succeeded{attempt}", *when, "."))
    code = job.status.value
    how = _by_whom(code.capitalize(), job, facts)
    ran = facts.attempt is not None and facts.attempt.error_code == errors.CANCELLED
    if ran and facts.holder is not None and _may_still_run(job, facts.holder):
        text = (
            f" It was running then: its handler may still be running on {facts.holder.id} until it returns. "
            "Its result will be ignored, and no new attempt will start."
        )
        return Told(code, (*how, text))
    purge = "" if job.status is Status.CANCELLED else " A purge will remove it for good."
    return Told(code, (*how, f" It will not run{' again' if ran or job.attempt_count else ''}.{purge}"))


def _dead(job: Job, error: str | None) -> Told:
    kind = job.error_type or job.error_code or "an unknown error"
    number = f"attempt {job.attempt_count} of {job.max_attempts}"
    if job.attempt_count >= job.max_attempts:
        text = f"It is dead: {number} failed with {kind}"
        return Told("dead", (f"{text}: {error}" if error else f"{text}.",))
    text = f"It died on {number}: {_why_no_more(job, kind)}."
    return Told("dead", (f"{text} Error: {error}" if error else text,))


def _why_no_more(job: Job, kind: str) -> str:
    """Why a job died although it had attempts left."""
    if job.error_code == errors.RowUnreadable.code:
        return "its row is damaged, so it cannot be run"
    if job.error_code == errors.UpcastFailed.code:
        version = version_of(job.payload_version)
        return f"its payload of version {version} could not be upcast, and that is not retried"
    if job.error_code == errors.DecryptionFailed.code:
        return "what it needs cannot be decrypted here, and that is not retried. Add the key and retry the job"
    if job.error_code == errors.InvalidPayload.code:
        return "its payload is invalid, and an invalid payload is not retried"
    if job.error_type is None:
        return f"it failed with {kind} and was not retried"
    return f"{kind} is not retried by this job's retry policy"


def _by_whom(verb: str, job: Job, facts: Facts) -> Sentence:
    """``Cancelled by ada at …: superseded.``"""
    last, moment = facts.last_event, job.finished_at
    actor = reason = None
    if last is not None and last.event_type == "superseded" and job.superseded_by is not None:
        return (f"{verb} at ", At(last.created_at), f": job {job.superseded_by} has taken its place.")
    if last is not None and last.event_type == job.status.value:
        actor, reason, moment = last.actor, last.message, last.created_at
    if actor is None and job.error_code != errors.Expired.code and _by_handler(job, facts):
        actor = "its handler"
    by = f"{verb} by {actor}" if actor else verb
    when: Sentence = (" at ", At(moment)) if moment else ()
    return (by, *when, f": {_closed(reason)}" if reason else ".")


def _by_handler(job: Job, facts: Facts) -> bool:
    # This code is written where somebody else cancelled a running job.
    last = facts.attempt
    ended = last is not None and last.status == AttemptStatus.CANCELLED and last.error_code != errors.CANCELLED
    return ended and job.status is Status.CANCELLED


def _closed(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _may_still_run(job: Job, worker: WorkerView) -> bool:
    """Whether the worker lives, and has not said since the job ended that it runs nothing.

    By the first heartbeat after the end it learns of it; by the second, or a second later, it knows whether the
    handler has returned.
    """
    if job.finished_at is None or not worker.live:
        return worker.live
    knows = worker.heartbeat_at > job.finished_at + timedelta(seconds=2 * worker.heartbeat_seconds + 2)
    return worker.running + worker.stuck > 0 or not knows


def _stuck(job: Job, facts: Facts) -> Iterable[Told]:
    """A handler that was told to stop at its timeout, and may not have."""
    worker = facts.holder
    if facts.attempt is None or facts.attempt.error_code != errors.JobTimeout.code:
        return
    if worker is not None and worker.trouble is not None:
        text = (
            f"Attempt {job.attempt_count} was told to stop at its timeout. Its handler may still be running on "
            f"{worker.id}: {worker.trouble}."
        )
        yield Told("still_running", (text,))


# What keeps it


def _running(job: Job, facts: Facts) -> Told:
    holder = facts.holder
    if job.locked_until is None:
        return Told("running", (f"It is running: {job.locked_by} holds it.",))
    until = job.locked_until
    if until < facts.now:
        lease: Sentence = (f"The lease of {job.locked_by} ended ", Relative(until), ", at ", At(until))
        return Told("lease_expired", (*lease, f", and was not renewed. {_taken_over(job, facts)}"), until)
    if holder is not None and not holder.live:
        return Told("worker_gone", (*_gone(holder), *_lease(until), f". {_then(job, facts)}"), until)
    started = None if facts.attempt is None else facts.attempt.started_at
    if started is None:
        return Told("running", (f"It is running on {job.locked_by}.", *_lease_kept(until, holder)), until)
    if job.timeout is not None and (facts.now - started).total_seconds() > job.timeout + OVERRUN_SECONDS:
        text = f", longer than its timeout of {span(job.timeout)}, and {job.locked_by} has not ended it."
        return Told("overrun", ("It has run for ", Since(started), text, *_lease_kept(until, holder)), until)
    begun: Sentence = (f"It is running on {job.locked_by}, started ", Relative(started), ".")
    return Told("running", (*begun, *_lease_kept(until, holder)), until)


def _gone(worker: WorkerView) -> Sentence:
    if worker.liveness == "stopped":
        when: Sentence = (" ", Relative(worker.stopped_at)) if worker.stopped_at else ()
        return (f"Worker {worker.id} stopped", *when, ", but this job was not finished.")
    return (f"Worker {worker.id} stopped responding ", Relative(worker.heartbeat_at), ".")


def _lease(until: datetime) -> Sentence:
    return (" Its lease ends ", Relative(until), ", at ", At(until))


def _lease_kept(until: datetime, holder: WorkerView | None) -> Sentence:
    if holder is None:
        return (" Its lease ends at ", At(until), " unless it is renewed.")
    closing = " The worker is shutting down." if holder.liveness == "draining" else ""
    return (" The worker renews its lease, which now ends at ", At(until), f".{closing}")


def _then(job: Job, facts: Facts) -> str:
    """What follows when a lease ends."""
    if job.attempt_count >= job.max_attempts:
        return f"Then the job is dead: this is attempt {job.attempt_count} of {job.max_attempts}."
    who = "another worker" if facts.workers else "the next worker that starts"
    return f"Then {who} takes the job over as attempt {job.attempt_count + 1} of {job.max_attempts}."


def _taken_over(job: Job, facts: Facts) -> str:
    what = "returns the job to its queue"
    if job.attempt_count >= job.max_attempts:
        what = f"makes the job dead: this was attempt {job.attempt_count} of {job.max_attempts}"
    return f"{_next_check(facts)} {what}."


def _next_check(facts: Facts) -> str:
    return "The next check by a worker" if facts.workers else "No worker is live now; the first one that starts"


def _waits(facts: Facts) -> Iterable[Told]:
    yield Told("waiting", (waits_for_jobs(facts.parents, any_parent=facts.any_parent),))
    if facts.blocker is not None:
        yield Told("blocker", (kept_by(facts.blocker),))


def _suspended(facts: Facts) -> Iterable[Told]:
    for step in facts.waits:
        until, name = step.wake_at, step.name
        if step.kind is StepKind.SLEEP and until is not None:
            yield Told("asleep", (f"It sleeps ({name}) until ", At(until), ", ", Relative(until), "."), until)
        elif step.kind is StepKind.SIGNAL:
            since: Sentence = (f"It has been waiting for the signal {name!r} for ", Since(step.created_at), ".")
            yield Told("signal", (*since, " Send it, or let the application send it."))
            if until is not None:
                then = "; then the handler gets SignalTimeout."
                yield Told("signal_timeout", ("The wait times out ", Relative(until), ", at ", At(until), then), until)
    if not facts.waits:
        text = "What it has waited for is there. The next cleanup queues it, or doctor --repair does."
        yield Told("waiting", (text,))
    yield Told("waiting", ("No worker is held meanwhile, and waiting uses up no attempt.",))


def _paused(job: Job, facts: Facts) -> Told:
    back = (job.paused_from or Status.QUEUED).value.capitalize()
    how: Sentence = ("Paused.",)
    if facts.last_event is not None and facts.last_event.event_type == "paused" and facts.last_event.actor:
        how = _by_whom("Paused", job, facts)
    decided = decided_meanwhile(facts.parents, any_parent=facts.any_parent)
    return Told("paused", (*how, f" {decided or f'Resuming returns it to {back}.'}"))


def _not_due(job: Job, facts: Facts) -> Told:
    due = job.run_at
    if due <= facts.now:
        return Told("next", ("It was due at ", At(due), f". {_next_check(facts)} moves it to its queue."), due)
    # Due, not "runs": its queue may be paused, or have no worker.
    what = f"attempt {job.attempt_count + 1}" if job.status is Status.RETRYING else "it"
    return Told("not_due", (f"It is not due yet: {what} is due ", Relative(due), ", at ", At(due), "."), due)


def _too_new(job: Job) -> Iterable[Told]:
    if job.error_code == errors.PayloadNewer.code:
        text = (
            f"Its payload is of version {version_of(job.payload_version)}. The worker that took it last has older code "
            "and left it, without counting the attempt; a worker with newer code will run it."
        )
        yield Told("payload_newer", (text,))


def _obstacles(job: Job, facts: Facts) -> Iterable[Told]:
    if facts.pause is not None:
        until = facts.pause.until
        end: Part = At(until) if until else "somebody resumes it"
        by = f" (by {facts.pause.by})" if facts.pause.by else ""
        why = f" Reason: {_closed(facts.pause.reason)}" if facts.pause.reason else ""
        yield Told("queue_paused", (f"Its queue {job.queue!r} is paused until ", end, f"{by}.{why}"), until)
    on_queue = [worker for worker in facts.workers if works_on(worker, job.queue)]
    if not on_queue:
        number = len(facts.workers)
        others = f" {number} live worker{'s take' if number > 1 else ' takes'} jobs from other queues only."
        yield Told("no_worker", (f"No live worker for its queue {job.queue!r}.{others if number else ''}",))
        yield from _quiet(job, facts)
        yield from _silent(job, facts)
    elif not any(job.name in worker.names for worker in on_queue):
        one = len(on_queue) == 1
        who = "The live worker" if one else f"None of the {len(on_queue)} live workers"
        has = "has no handler" if one else "has a handler"
        yield Told("no_handler", (f"{who} of its queue {job.queue!r} {has} for {job.name!r}.",))


def _quiet(job: Job, facts: Facts) -> Iterable[Told]:
    """The workers of its queue that an operator has made quiet."""
    quiet = [worker.id for worker in facts.quiet if works_on(worker, job.queue)]
    if quiet:
        alone = f"Worker {quiet[0]} of this queue is quiet: it takes no jobs until an operator resumes it."
        several = f"{len(quiet)} workers of this queue are quiet: they take no jobs until an operator resumes them."
        yield Told("quiet_worker", (alone if len(quiet) == 1 else several,))


def _silent(job: Job, facts: Facts) -> Iterable[Told]:
    """The worker of its queue that was heard of last, and did not say that it stops."""
    silent = [worker for worker in facts.silent if works_on(worker, job.queue)]
    if silent:
        last = max(silent, key=lambda worker: worker.heartbeat_at)
        text = " The job runs when it is back, or when another worker of this queue starts."
        yield Told("silent_worker", (f"Worker {last.id} stopped responding ", Relative(last.heartbeat_at), ".", text))


def _expires(job: Job, facts: Facts) -> Iterable[Told]:
    """Until when it must have started."""
    until = job.expires_at
    if until is None or job.attempt_count or job.status in (*FINISHED, Status.PROCESSING):
        return
    if until <= facts.now:
        yield Told("expires", ("It expired at ", At(until), f". {_next_check(facts)} cancels it."), until)
    else:
        yield Told("expires", ("It is cancelled unless it starts by ", At(until), ", ", Relative(until), "."), until)


def _in_line(job: Job, facts: Facts, *, free: bool) -> Iterable[Told]:
    """Its place in the queue; ``free`` when nothing else keeps it from running."""
    if facts.ahead:
        noun = "job is" if facts.ahead == CappedCount(1) else "jobs are"
        yield Told("jobs_ahead", (f"{facts.ahead} {noun} ahead of it in its queue {job.queue!r}.",))
    elif free:
        yield Told("next", (f"It is next in its queue {job.queue!r}: the next free worker takes it.",))


def _rises(job: Job, facts: Facts) -> Iterable[Told]:
    """How its priority changes while it is queued or waits for a permit, and what it was before."""
    risen = facts.base_priority is not None and facts.base_priority < job.priority
    was = f"Its priority was {facts.base_priority} and has risen to {job.priority} while it waited." if risen else ""
    rule = f"Priorities in its queue {rising(*facts.ageing)}." if facts.ageing is not None else ""
    if was or rule:
        yield Told("ageing", (" ".join(part for part in (was, rule) if part),))


def _attempts(job: Job, error: str | None) -> Told:
    text = f"Attempts used: {job.attempt_count} of {job.max_attempts}."
    if job.waiting_for in (WaitingFor.SLEEP, WaitingFor.SIGNAL):
        # Both numbers grow with every wait.
        text = f"Attempts left: {job.max_attempts - job.attempt_count}."
    if error is None:
        return Told("attempts", (text,))
    what = "Last attempt" if job.error_code in NO_ERRORS else "Last error"
    return Told("attempts", (f"{text} {what}: {error}",))
