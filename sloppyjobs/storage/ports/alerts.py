"""Alerts: the rules that workers evaluate, what was found, and what became of telling it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from sloppyjobs.domain.alerts import Death
from sloppyjobs.domain.model import NewJob
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.storage.ports.reads import Key


class RuleRecord(NamedTuple):
    """A rule as workers declared it last. ``watch`` is JSON; ``target`` says whom it tells, without secrets."""

    name: str
    watch: str
    target: str
    job_name: str
    """The job that delivers its alerts."""
    queue: str
    seen_at: datetime | None = None
    muted_at: datetime | None = None
    muted_until: datetime | None = None
    muted_by: str | None = None
    mute_reason: str | None = None
    last_alert_at: datetime | None = None

    def is_muted(self, now: datetime) -> bool:
        """Whether what it finds is written down, and nobody is told."""
        return self.muted_at is not None and (self.muted_until is None or now < self.muted_until)


class AlertRecord(NamedTuple):
    """An alert that was raised. ``told`` is JSON; its job delivers it."""

    rule: str
    cause: str
    window_start: datetime
    job_id: str
    created_at: datetime
    window_seconds: float
    target: str
    told: str
    state: str
    """``pending``, ``told`` or ``failed``, where its job may know more; ``muted`` for one without a job."""
    ended_at: datetime | None = None
    tries: int | None = None
    error: str | None = None


class AlertRow(NamedTuple):
    """An alert with the job that delivers it, where that is there still."""

    alert: AlertRecord
    status: Status | None
    tries: int | None
    error_message: str | None
    finished_at: datetime | None


class AlertPort(Protocol):
    """Alerts; a store has it as ``alerts``."""

    def declare(self, rules: Sequence[RuleRecord]) -> None:
        """Write these rules, and that they were seen now."""
        ...

    def known(self) -> dict[str, RuleRecord]:
        """The rules that were ever declared, without their last alerts."""
        ...

    def mute(self, rule: str, muted: bool, until: datetime | None, command: Command) -> bool:
        """Mute a rule until an instant, or for good; or end that. Audited; False where there is no such rule."""
        ...

    def deaths(self, since: datetime, queue: str | None, name: str | None, besides: str, limit: int) -> list[Death]:
        """Jobs that died at or after an instant and are dead, but for those of a name; bounded, latest first."""
        ...

    def last(self, rule: str, causes: Sequence[str], *, muted: bool) -> dict[str, datetime]:
        """When the window of a rule's last alert began, of those of these causes that have had one.

        Those that were muted count where the rule is ``muted``: when it is not any more, nobody was told of them.
        """
        ...

    def raise_alert(self, alert: AlertRecord, job: NewJob, command: Command | None = None) -> bool:
        """Write an alert and the job that delivers it, in one transaction; False while the cause's last window runs.

        That of a rule that is muted is written as such, without a job.
        ``command``, where somebody asked for it, is audited, and no window is in its way.
        """
        ...

    def settle(self, limit: int) -> int:
        """Write down what became of the deliveries that have ended; of how many."""
        ...

    def page(self, rule: str | None, after: Key | None, *, backward: bool, limit: int) -> list[AlertRow]:
        """Alerts beyond a key (when, and the job's id), latest first or backward."""
        ...

    def rules(self, limit: int) -> list[RuleRecord]:
        """The rules that were ever declared, by name, with their last alerts."""
        ...

    def remove(self, before: datetime, limit: int) -> int:
        """Remove alerts from before an instant."""
        ...
