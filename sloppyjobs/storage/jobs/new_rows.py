"""New jobs as the columns of their rows: what all of them have in common, and the columns in which they differ.

Jobs that are enqueued together are mostly alike. A statement takes what they share once, and a list for each column in
which they differ; so every kind of call goes in by the same way, and only its differences cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, repeat
from operator import add, attrgetter
from typing import Any

from sloppyjobs.domain.model import DERIVED, AlikeJobs, Job, NewJob, Terms, terms_by
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.schema.columns import JOB_COLUMNS, Kind, New, TableColumn, inserted, names, terms_of, told

JOB_INSERT = names(inserted(JOB_COLUMNS))
"""The columns that the insert of a job fills."""
CREATED_EVENT = ("job_id", "created_at", "event_type", "to_status")
"""The columns of the event of a job's creation."""

_ORDER = (New.ID, New.PAYLOAD, New.STATUS, New.RUN_AT, New.NOW, New.ZERO)
_DECIDED = [(column.name, _ORDER.index(column.new)) for column in JOB_COLUMNS if isinstance(column.new, New)]
_INSTANTS = [column.name for column in JOB_COLUMNS if column.kind is Kind.INSTANT and isinstance(column.new, str)]
_NEW = {column.name: column.new for column in JOB_COLUMNS}
TERMS = terms_of(JOB_COLUMNS)
"""The columns that terms fill."""
of_terms = attrgetter(*TERMS.values())
"""Their values in the terms of a job, in the same order."""

ToDriver = Callable[[datetime], Any]


class NewRows:
    """The rows of new jobs; the first is created ``now``, and each a step after the one before.

    ``shared`` are the values of those columns of terms that are the same in every row, ``own`` the lists of the others.
    ``due_now`` says that each of them is due when it is created; ``run_at`` and ``statuses`` hold for all. ``delay`` is
    how long after its creation each is due, where that is the same for all. Without ``now``, what depends on it is only
    known after ``date``.
    """

    __slots__ = ("_new", "created", "delay", "due_now", "ids", "own", "payloads", "run_at", "shared", "statuses")

    created: list[datetime]
    run_at: list[datetime]
    statuses: list[Status]
    delay: timedelta | None
    due_now: bool

    def __init__(self, new: Sequence[NewJob], now: datetime | None, step: timedelta) -> None:
        self._new = new
        self.ids = [job.id for job in new]
        self.payloads = [job.payload for job in new]
        terms = [job.terms for job in new]
        self.shared: dict[str, Any] = {}
        self.own: dict[str, Sequence[Any]] = {}
        if isinstance(new, AlikeJobs):
            self._divide_by(terms, new.differing)
        else:
            self._divide(terms, {id(one): one for one in terms})
        if now is not None:
            self.date(now, step)

    def date(self, now: datetime, step: timedelta) -> None:
        """Say when the first of the jobs is created, and how long before the next one."""
        number = len(self.ids)
        more = repeat(step, number - 1)
        self.created = list(accumulate(more, add, initial=now)) if step else [now] * number
        self.delay = _common_delay(self._new)
        if self.delay is None:
            self.run_at, self.statuses = _placed([job.terms for job in self._new], self.created)
        elif self.delay:
            self.run_at = [moment + self.delay for moment in self.created]
            self.statuses = [Status.SCHEDULED] * number
        else:
            self.run_at, self.statuses = self.created, [Status.QUEUED] * number
        self.due_now = self.run_at is self.created

    def _divide(self, terms: Sequence[Terms], different: dict[int, Terms]) -> None:
        if len(different) == 1:
            self.shared = dict(zip(TERMS, of_terms(terms[0]), strict=True))
            return
        for name, values in zip(TERMS, zip(*map(of_terms, different.values()), strict=True), strict=True):
            if values.count(values[0]) == len(values):
                self.shared[name] = values[0]
            elif len(different) == len(terms):
                self.own[name] = values
            else:
                by_terms = dict(zip(different, values, strict=True))
                self.own[name] = [by_terms[id(one)] for one in terms]

    def _divide_by(self, terms: Sequence[Terms], differing: frozenset[str]) -> None:
        """The same where it is known in which fields they can differ."""
        self.shared = dict(zip(TERMS, of_terms(terms[0]), strict=True))
        for name, field in TERMS.items() if differing else ():
            if field in differing or not differing.isdisjoint(DERIVED.get(field, ())):
                values = list(map(attrgetter(field), terms))
                if values.count(values[0]) < len(values):
                    del self.shared[name]
                    self.own[name] = values

    def jobs(self) -> list[Job]:
        """The jobs as their rows say."""
        if len(self._new) == 1:
            return [rows.as_written(self._new[0], self.statuses[0], self.run_at[0], self.created[0])]
        return list(map(Job, *map(self._field, self._answered())))

    def queues(self) -> list[str]:
        """The queues of the jobs, sorted."""
        return sorted(set(self.column("queue")))

    def column(self, name: str) -> Iterable[Any]:
        """The values of a column that terms fill, one for each row."""
        own = self.own.get(name)
        return repeat(self.shared[name], len(self.ids)) if own is None else own

    def values(self, to_driver: ToDriver) -> tuple[dict[str, Any], dict[str, Sequence[Any]]]:
        """Every column of ``JOB_INSERT`` in the driver's form: what is shared, and the lists of what is not."""
        created = _instants(self.created, to_driver)
        run_at = created if self.due_now else _instants(self.run_at, to_driver)
        status = "queued" if self.due_now else _once([status.value for status in self.statuses])
        decided = (self.ids, self.payloads, status, run_at, created, 0)
        shared, own = dict(self.shared), dict(self.own)
        for name, place in _DECIDED:
            value: Any = decided[place]
            (own if isinstance(value, list) else shared)[name] = value
        for name in _INSTANTS:
            if name in own:
                own[name] = [None if value is None else to_driver(value) for value in own[name]]
            elif shared[name] is not None:
                shared[name] = to_driver(shared[name])
        return shared, own

    def dicts(self, to_driver: ToDriver) -> list[dict[str, Any]]:
        """The rows, each with every column of ``JOB_INSERT``, in the driver's form."""
        shared, own = self.values(to_driver)
        return [shared | dict(zip(own, values, strict=True)) for values in zip(*own.values(), strict=True)]

    def events(self, to_driver: ToDriver) -> list[dict[str, Any]]:
        """The rows of the first events, with every column of ``CREATED_EVENT``."""
        moments = map(to_driver, self.created)
        return [
            {"job_id": job_id, "created_at": moment, "event_type": "created", "to_status": status.value}
            for job_id, moment, status in zip(self.ids, moments, self.statuses, strict=True)
        ]

    def _answered(self) -> Sequence[TableColumn]:
        """The columns that the jobs are answered with, up to the last in which one of them has a value.

        The fields after it have their defaults, which a struct fills by itself at no cost.
        """
        given = {name for name, value in self.shared.items() if value is not None} | self.own.keys() | _ALWAYS
        last = max(place for place, column in enumerate(_TOLD) if column.name in given)
        return _TOLD[: last + 1]

    def _field(self, column: TableColumn) -> Iterable[Any]:
        """The values of a field of the jobs."""
        if column.kind is Kind.OBJECT:
            # A dict of its own for each caller, who may write into it.
            return map(rows.metadata, self.column(column.name))
        if column.kind is Kind.WORDS:
            # Each different text once: nobody can write into what is read.
            texts = list(self.column(column.name))
            return map({text: rows.words(text) for text in set(texts)}.__getitem__, texts)
        match _NEW[column.name]:
            case None:
                return repeat(None)
            case New.ID:
                return self.ids
            case New.STATUS:
                return self.statuses
            case New.RUN_AT:
                return self.run_at
            case New.NOW:
                return self.created
            case New.ZERO:
                return repeat(0)
            case _:
                return self.column(column.name)


_TOLD = told(JOB_COLUMNS, Job)
_ALWAYS = {column.name for column in JOB_COLUMNS if isinstance(column.new, New)}


def due_at_once(terms: Terms) -> bool:
    """Whether the job may start as soon as it is written."""
    return terms.run_at is None and not terms.delay and not terms.waits


def _common_delay(new: Sequence[NewJob]) -> timedelta | None:
    """How long after its creation each job is due; None where it is not as simple as that."""
    terms = terms_by(new, "run_at", "delay", "waits")
    if all(map(due_at_once, terms)):
        return timedelta(0)
    one = next(iter(terms))
    alone = len(terms) == 1 and one.run_at is None and not one.waits
    # A delay below a microsecond is none.
    return timedelta(seconds=one.delay or 0.0) if alone else None


def _placed(terms: Sequence[Terms], created: list[datetime]) -> tuple[list[datetime], list[Status]]:
    """Due when it is created and ``queued``, or later and ``scheduled``."""
    different = {id(one): one for one in terms}
    # By the instant, or by the delay, of those that share their terms.
    delays = {key: timedelta(seconds=one.delay or 0.0) for key, one in different.items()}
    run_at = [
        moment + delays[id(one)] if one.run_at is None else one.run_at
        for one, moment in zip(terms, created, strict=True)
    ]
    queued, scheduled = Status.QUEUED, Status.SCHEDULED
    statuses = [queued if due <= moment else scheduled for due, moment in zip(run_at, created, strict=True)]
    if any(one.waits for one in different.values()):
        statuses = [Status.WAITING if one.waits else status for one, status in zip(terms, statuses, strict=True)]
    return run_at, statuses


def _instants(values: Sequence[datetime], to_driver: ToDriver) -> Any:
    """The instants in the driver's form; a single one if they are all the same."""
    if values[0] == values[-1] and values.count(values[0]) == len(values):
        return to_driver(values[0])
    return list(map(to_driver, values))


def _once(values: list[str]) -> Any:
    return values[0] if values.count(values[0]) == len(values) else values
