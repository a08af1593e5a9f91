"""The jobs that a schedule spawns, and what is shown of a schedule.

Pure: no I/O, no clock. An occurrence's id and key are functions of the schedule and the instant, so whoever
fires it writes the same job.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, TypeVar

import msgspec

from sloppyjobs import errors, ids
from sloppyjobs.domain.limits import partition_of
from sloppyjobs.domain.model import NewJob, Terms
from sloppyjobs.domain.options import KEY_LENGTH
from sloppyjobs.domain.payload import decode, encode, validate_input
from sloppyjobs.domain.redaction.redactor import Preview, Redactor
from sloppyjobs.enqueue.definitions import Definition, default_terms
from sloppyjobs.schedules.timetable import MAX_PREVIEW, Misfire, Plan, after, plan, resumed
from sloppyjobs.storage.ports.schedules import Firing, PassedOver, ScheduleFacts, StoredSchedule, passed_over, timetable

MANUAL = "recurring.trigger"
"""The metadata key of a job that somebody asked for by hand."""
T = TypeVar("T")
_INSTANT = len("2030-01-31T09:00:00.000000Z")


class Recurring(ScheduleFacts, frozen=True, kw_only=True):
    """A schedule as it is shown: its payload only as a redacted preview."""

    queue: str
    priority: int
    payload_preview: Preview
    missed: tuple[PassedOver, ...] = ()
    """What it did not fire though it was due, latest first; of the last twenty times."""

    @property
    def vanished(self) -> bool:
        """Whether the code that declared it does so no more."""
        return self.vanished_at is not None

    def upcoming(self, count: int = 5, now: datetime | None = None) -> list[datetime]:
        """The next occurrences from its cursor on, as if it is neither paused nor late; none for a damaged row.

        With ``now``, those of a paused schedule are as if it was resumed then, which passes over what it missed.
        """
        moment, found = self.next_run_at, list[datetime]()
        try:
            if moment is not None and self.paused and now is not None:
                moment = resumed(timetable(self), moment, now)
            while moment is not None and len(found) < min(count, MAX_PREVIEW):
                found.append(moment)
                moment = after(timetable(self), moment, anchor=self.next_run_at)
        except errors.JobsError:
            return []
        return found


class JobDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """What a definition decides about its jobs."""

    queue: str = "default"
    priority: int = 0
    max_attempts: int = 3
    retry_policy: str | None = None
    timeout: float | None = None
    metadata: str | None = None
    expires: float | None = None
    tags: str | None = None
    resource: str | None = None
    payload_version: int | None = None

    @classmethod
    def of(cls, definition: Definition) -> JobDefaults:
        """Those of a definition."""
        return msgspec.convert(default_terms(definition), cls)

    def to_json(self) -> str:
        """As they are kept with a schedule."""
        return msgspec.json.encode(self).decode()


def fire(stored: StoredSchedule, definition: Definition | None, now: datetime) -> Firing:
    """What a due schedule does at ``now``. Raises when its row is damaged."""
    assert stored.next_run_at is not None
    planned = plan(timetable(stored), stored.next_run_at, now)
    jobs = [
        NewJob(
            ids.occurrence(stored.id, instant),
            stored.payload,
            _terms(
                stored,
                definition,
                run_at=instant,
                occurrence_at=instant,
                idempotency_key=occurrence_key(stored.name, instant),
            ),
        )
        for instant in planned.fire
    ]
    return Firing(jobs, planned.next_run_at, stored.kind == "once", _passed(stored, planned, now))


def _passed(stored: StoredSchedule, planned: Plan, now: datetime) -> PassedOver | None:
    if planned.last_skipped is None:
        return None
    assert stored.next_run_at is not None
    return PassedOver(
        first=stored.next_run_at,
        last=planned.last_skipped,
        number=planned.skipped,
        more=planned.skipped_capped,
        outcome="skipped" if stored.misfire == Misfire.IGNORE else "collapsed",
        reason=stored.misfire,
        decided_at=now,
    )


def manual_job(
    stored: StoredSchedule, definition: Definition | None, *, id: str, now: datetime, actor: str | None
) -> NewJob:
    """One job of a schedule out of turn: it belongs to the schedule's history and is marked as asked for."""
    terms = _terms(stored, definition, occurrence_at=now, principal=actor)
    known = {} if terms.metadata is None else decode(terms.metadata)
    marked = msgspec.structs.replace(terms, metadata=encode({**known, MANUAL: "manual"}, what="metadata"))
    return NewJob(id, stored.payload, marked)


def _terms(stored: StoredSchedule, definition: Definition | None, **fields: Any) -> Terms:
    payload = decode(stored.payload)
    defaults = _defaults(stored.job_defaults, definition)
    given = {"queue": stored.queue, "priority": stored.priority}
    chosen = {name: value for name, value in given.items() if value is not None}
    if definition is not None and definition.partition is not None:
        fields["partition_key"] = _partition(payload, definition)
    return Terms(
        name=stored.job_name,
        schedule_id=stored.id,
        **{**msgspec.structs.asdict(defaults), **chosen, **fields},
    )


def _partition(payload: Any, definition: Definition) -> str | None:
    """The partition that the definition makes of the payload; none where it makes none, as of one that is encrypted."""
    assert definition.partition is not None
    try:
        typed = payload if definition.input is None else validate_input(payload, definition.input)
        return partition_of(definition.partition, typed)
    except Exception:
        return None


def _defaults(job_defaults: str | None, definition: Definition | None) -> JobDefaults:
    if definition is not None:
        return msgspec.structs.replace(JobDefaults.of(definition), payload_version=_written_as(job_defaults))
    # A scheduler that does not have the definition goes by what it was when the schedule was registered.
    return JobDefaults() if job_defaults is None else _read(job_defaults, JobDefaults)


def _written_as(job_defaults: str | None) -> int | None:
    """The version of a schedule's payload: that of the definition when it was registered."""
    return None if job_defaults is None else _read(job_defaults, _Written).payload_version


def _read(job_defaults: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(job_defaults, type=kind)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise errors.InvalidSchedule(
            f"the schedule's row is damaged: job_defaults: {error}; register it again"
        ) from None


class _Written(msgspec.Struct, frozen=True):
    payload_version: int | None = None


def _readable_defaults(job_defaults: str | None, definition: Definition | None) -> JobDefaults:
    """Also of a row that somebody has damaged."""
    try:
        return _defaults(job_defaults, definition)
    except errors.InvalidSchedule:
        return JobDefaults() if definition is None else JobDefaults.of(definition)


def effective_queue(queue: str | None, job_defaults: str | None, definition: Definition | None) -> str:
    """Where a schedule's jobs go: to its own queue, else to the definition's."""
    return _readable_defaults(job_defaults, definition).queue if queue is None else queue


def occurrence_key(name: str, instant: datetime) -> str:
    """The idempotency key of an occurrence: readable, and the same for a schedule that was deleted and made again."""
    return _key_stem(name) + instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def occurrence_keys(name: str) -> tuple[str, str]:
    """The range of the keys of a schedule's occurrences, its end not included."""
    # After the stem comes a digit; the stem of a name that goes on with an @ has an @ there.
    return _key_stem(name) + "0", _key_stem(name) + ":"


def _key_stem(name: str) -> str:
    stem = "recurring:" + name.replace("@", "@@") + "@"
    if len(stem) + _INSTANT <= KEY_LENGTH:
        return stem
    return f"recurring:{sha256(name.encode()).hexdigest()}@"


def shown(stored: StoredSchedule, definition: Definition | None, secret: Iterable[str] = ()) -> Recurring:
    """What may be shown of a schedule whose job has these secret keys, besides those of its definition."""
    redactor = Redactor((*secret, *(() if definition is None else definition.redact)))
    defaults = _readable_defaults(stored.job_defaults, definition)
    facts = {name: getattr(stored, name) for name in ScheduleFacts.__struct_fields__}
    facts["last_error"] = None if stored.last_error is None else redactor.text(stored.last_error)
    return Recurring(
        queue=defaults.queue if stored.queue is None else stored.queue,
        priority=defaults.priority if stored.priority is None else stored.priority,
        payload_preview=redactor.json(stored.payload),
        missed=passed_over(stored.missed),
        **facts,
    )
