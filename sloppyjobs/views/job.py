"""One job: its row, its page, its history, and why it is where it is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from sloppyjobs.domain.model import Attempt, EventFacts, JobFacts
from sloppyjobs.domain.redaction.redactor import Preview
from sloppyjobs.domain.states import Status


class JobRow(JobFacts, frozen=True, kw_only=True):
    """A job in a list: everything but its result and metadata, and of its payload a line. Texts are redacted."""

    actions: tuple[str, ...] = ()
    """The commands that the state machine allows now, by the names of the admin's methods."""
    damage: str | None = None
    """Which columns cannot be read and have a substitute here; None for a row that is not damaged."""
    payload_preview: Preview | None = None
    """In a list: the first fields of the payload, in one line; None where it was not read."""
    started_at: datetime | None = None
    """When the last attempt began; None before the first."""
    duration: float | None = None
    """Seconds of the last attempt; None before the first, and while one runs."""


class JobView(JobRow, frozen=True, kw_only=True):
    """A job on its own page: the row, and redacted previews of what it carries."""

    payload_preview: Preview
    result_preview: Preview | None = None
    """None where the job has no result."""
    metadata: Mapping[str, Any] = {}
    progress_fields: Mapping[str, Any] = {}
    """The fields of the last ``ctx.progress``, redacted and bounded."""
    schedule_name: str | None = None
    """The schedule that made it; None where none did, or where it exists no more."""

    @property
    def result(self) -> Any:
        """The redacted, bounded result; None where there is none."""
        return None if self.result_preview is None else self.result_preview.value


class AttemptView(Attempt, frozen=True, kw_only=True):
    """One execution of a job, its error redacted. ``id`` is ``attempt_<job>_<number>``."""

    id: str


class EventView(EventFacts, frozen=True, kw_only=True):
    """One edge that a job took. ``id`` is ``event_<number>``; the numbers order a job's events."""

    id: str


class LogView(msgspec.Struct, frozen=True, kw_only=True):
    """One line that a handler logged, redacted."""

    id: str
    job_id: str
    attempt_number: int
    level: str
    message: str
    created_at: datetime
    fields: Mapping[str, Any] = {}


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """A step, a sleep or a signal of a job, its result redacted and bounded."""

    name: str
    kind: str
    """``step``, ``sleep`` or ``signal``."""
    state: str
    """``done``, ``waiting``, ``ready`` (the handler has not been told yet), ``timed_out``, or ``early`` for a signal
    that came before it was asked for."""
    attempt_number: int
    """The attempt that did it, or that asked for it last."""
    created_at: datetime
    """When the handler first came to it; for a step, when it was done; for an early signal, when it came."""
    finished_at: datetime | None = None
    wake_at: datetime | None = None
    """When a sleep is over, or when a signal is not waited for any more; None where it is over, or has no end."""
    duration: float | None = None
    """Seconds in the step's function, or of waiting."""
    size: int = 0
    """Bytes of the result."""
    result_preview: Preview | None = None
    """None where there is no result, or where it is too large to be shown, as ``size`` says."""


class DependencyView(msgspec.Struct, frozen=True, kw_only=True):
    """The job at the other end of a dependency."""

    job_id: str
    name: str
    queue: str
    status: Status
    needs: str
    """Which end of the parent the child needs: ``success``, ``failure`` or ``always``."""
    state: str
    """``open``, ``met``, or ``failed`` where the parent has ended otherwise."""


class DependenciesView(msgspec.Struct, frozen=True, kw_only=True):
    """What a job waits for, open edges first, and what waits for it, by id. Bounded, as ``more`` says."""

    parents: tuple[DependencyView, ...] = ()
    children: tuple[DependencyView, ...] = ()
    more: bool = False
    """Whether there are more parents or children than these."""


class Reason(msgspec.Struct, frozen=True):
    """One thing that keeps a job from running, or says how it ended.

    ``code`` is one of ``finished``, ``cancelled``, ``deleted``, ``dead``, ``still_running``, ``running``,
    ``overrun``, ``worker_gone``, ``lease_expired``, ``paused``, ``waiting``, ``blocker``, ``asleep``, ``signal``,
    ``signal_timeout``, ``not_due``, ``queue_paused``, ``no_worker``, ``quiet_worker``, ``silent_worker``,
    ``no_handler``, ``payload_newer``, ``jobs_ahead``, ``ageing``, ``permit``, ``not_limited``, ``expires``,
    ``batch``, ``attempts``, ``next``.
    """

    code: str
    text: str
    until: datetime | None = None


class Explanation(msgspec.Struct, frozen=True):
    """Why a job is where it is: the answer in one sentence, then everything that bears on it."""

    job_id: str
    status: Status
    verdict: str
    reasons: tuple[Reason, ...] = ()


class BulkResult(msgspec.Struct, frozen=True, kw_only=True):
    """The tally of a bulk command; of a dry run, what it would have met."""

    action: str
    dry_run: bool
    matched: int
    """Jobs that the filter found, up to the limit."""
    more: bool
    """Whether the filter finds more than were matched."""
    done: int = 0
    """Jobs that were changed; in a dry run, those that would be."""
    skipped: Mapping[str, int] = {}
    """Why jobs were left alone, and how many for each reason."""
    sample_ids: tuple[str, ...] = ()
    sample: tuple[JobRow, ...] = ()
    """A few of the rows, in a dry run only."""
    next_cursor: str | None = None
    """To continue a command that is not finished; None when it is."""
