"""What operators command, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from sloppyjobs import errors
from sloppyjobs.domain.causes import MemberCounts
from sloppyjobs.domain.states import Status, WaitingFor
from sloppyjobs.storage.ports.reads import Cause


class JobState(NamedTuple):
    """A job as a command sees it, under the row's lock.

    Without instants and without what the job carries: a row with a damaged value can still be commanded.
    """

    id: str
    name: str
    status: Status
    attempt_count: int
    locked_by: str | None = None
    paused_from: Status | None = None
    retry_policy: str | None = None
    """The policy that was stored with the job, as JSON."""
    queue: str = ""
    followups: int | None = None
    waiting_for: str | None = None


class Step(NamedTuple):
    """Where a command takes a job, the name of the event, and what else it sets."""

    target: Status
    event: str
    paused_from: Status | None = None
    run_now: bool = False
    """Whether the run time becomes the present."""
    max_attempts: int | None = None
    """A new budget; None leaves the old one."""
    waiting_for: WaitingFor | None = None
    """What a job that is to wait will wait for; one that is paused, or waits again, remembers it."""


Move = tuple[JobState, Step]

Decide = Callable[[JobState], Step | None]
"""What a command means for a job; None when there is nothing to do.

Raises ``InvalidTransition`` where the command is not allowed.
"""


class Taken(NamedTuple):
    """What a command did to one job: a step, nothing where its effect was there already, or why it was refused."""

    job_id: str
    before: JobState | None
    step: Step | None = None
    refused: errors.JobsError | None = None
    repeated: bool = False
    """Whether an earlier try of the same transaction did it, whose answer was lost."""


class Command(NamedTuple):
    """What somebody commanded: the action, who it was, and why."""

    action: str
    actor: str | None = None
    reason: str | None = None


class AuditFilter(NamedTuple):
    """What the trail is narrowed to. Values are checked already."""

    target: str | None = None
    actor: str | None = None
    action: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None


class AuditRow(NamedTuple):
    """An entry of the audit trail; ``detail`` is JSON."""

    id: int
    created_at: datetime
    actor: str | None
    action: str
    target_type: str
    target: str
    reason: str | None
    detail: str | None


class Outcome(NamedTuple):
    """What a command did to one of many jobs: nothing where ``skipped`` says why."""

    job_id: str
    skipped: str | None = None


class SentForm(NamedTuple):
    """A form that was sent: by whom first, how long ago, and what that was answered."""

    claimed_by: str
    seconds: float
    answer: str | None


class Run(NamedTuple):
    """A row of retry runs."""

    id: str
    cause: str
    name: str
    error_type: str | None
    error_frame: str | None
    queues: str | None
    kind: str
    state: str
    rate: float | None
    wanted: int
    retried: int
    actor: str | None
    reason: str | None
    created_at: datetime
    next_at: datetime | None
    ended_at: datetime | None
    ended_because: str | None

    @property
    def of(self) -> Cause:
        """The cause in its parts."""
        return self.error_type, self.error_frame, self.name

    @property
    def scope(self) -> tuple[str, ...] | None:
        """The queues that it is limited to; None for all, and none where somebody has changed them by hand."""
        try:
            return None if self.queues is None else tuple(msgspec.json.decode(self.queues, type=list[str]))
        except (msgspec.MsgspecError, UnicodeError):
            return ()

    def seen_by(self, scope: Sequence[str] | None) -> bool:
        """Whether somebody who sees these queues sees all of it."""
        return scope is None or (bool(self.scope) and set(self.scope or ()) <= set(scope))


class Tally(NamedTuple):
    """What has become of a run's members, how many of the dead have another cause now, and how many were read."""

    fates: MemberCounts
    elsewhere: int
    looked: int


class Asked(NamedTuple):
    """A retry of a cause, as it was asked for."""

    run_id: str
    cause: Cause
    queues: tuple[str, ...] | None
    decide: Decide
    command: Command


class Moved(msgspec.Struct, frozen=True):
    """How many rows a call moved, and whether it stopped before it had examined everything."""

    count: int = 0
    more: bool = False
