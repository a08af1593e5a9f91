"""Recurring jobs: what makes jobs appear on time.

A schedule is a row that can be changed at any time; a fire of it is an ordinary job. Here it is checked what is
registered, and ticked; ``occurrences`` decides what a due schedule fires, the storage writes it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Unpack

import msgspec

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.domain.model import Job, NewJob
from sloppyjobs.domain.payload import encode, validate_input
from sloppyjobs.domain.redaction.redactor import encrypted_preview
from sloppyjobs.domain.sealed import is_sealed
from sloppyjobs.encryption import PLAIN, SCHEDULE, Sealing
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.ids import Ids
from sloppyjobs.observe import traces
from sloppyjobs.observe.hooks import Observer
from sloppyjobs.schedules import occurrences
from sloppyjobs.schedules import timetable as schedule
from sloppyjobs.schedules.occurrences import JobDefaults, Recurring
from sloppyjobs.schedules.settings import ScheduleSettings, edited
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.storage.ports.schedules import (
    Firing,
    MakeSchedule,
    NewSchedule,
    StoredSchedule,
    possible_name,
    unknown_schedule,
)
from sloppyjobs.views import Page

TICK_LIMIT = 1000

# Cron is periodic, so whether an expression ever fires does not depend on the day it is asked.
_ANY_DAY = datetime(2000, 1, 1, tzinfo=UTC)


class Synchronised(NamedTuple):
    """The names of the schedules that the code declares, and of those that have just vanished from it."""

    declared: tuple[str, ...]
    vanished: tuple[str, ...]


class _Sending:
    """Jobs of a schedule that are about to be written, and the producer's span of that where there is tracing."""

    def __init__(self) -> None:
        self._span: traces.ProducerSpan | None = None
        self.jobs: dict[str, NewJob] = {}

    def begin(self, new: Sequence[NewJob]) -> Sequence[NewJob]:
        """The jobs as they are to be written; replaces those of a transaction that is retried."""
        tracer = traces.tracer()
        if tracer is not None and new:
            self._span = traces.ProducerSpan(tracer, new)
            new = self._span.jobs
        self.jobs = {job.id: job for job in new}
        return new

    def end(self) -> None:
        """The jobs were written."""
        if self._span is not None:
            self._span.end()


class Schedules:
    """The schedules of one ``Jobs``. Making it opens no connection.

    ``application`` distinguishes applications that share a database and declare schedules; see ``sync``.
    """

    def __init__(
        self,
        storage: Callable[[], Store],
        definitions: Callable[[], Definitions],
        new_ids: Ids,
        *,
        payload_limit: int,
        application: str | None = None,
        observers: Sequence[Observer] = (),
        sealing: Callable[[], Sealing] = lambda: PLAIN,
    ) -> None:
        self._find_storage = storage
        self._observers = observers
        self._find_sealing = sealing
        self._find_definitions = definitions
        self._ids = new_ids
        self._payload_limit = payload_limit
        self.application = None if application is None else options.text("application", application)
        self._declared: dict[str, NewSchedule] = {}

    @property
    def _storage(self) -> Store:
        return self._find_storage()

    @property
    def _definitions(self) -> Definitions:
        return self._find_definitions()

    # Registering

    def register(
        self, name: str, job_name: str, payload: Any = None, **settings: Unpack[ScheduleSettings]
    ) -> Recurring:
        """Write a schedule now, or update the one of that name; the settings are those of ``Jobs.recurring``."""
        new = self._checked(name, job_name, payload, **settings)
        self._storage.redactions.write(self._definitions.redactions)
        written = self._storage.schedules.register(self._sealed(new))
        assert written is not None
        return self._shown(written, self._storage.redactions.by_name())

    def declare(self, name: str, job_name: str, payload: Any = None, **settings: Unpack[ScheduleSettings]) -> None:
        """Remember a schedule until ``sync`` writes it; ``DuplicateJob`` for a name that is declared already."""
        new = self._checked(name, job_name, payload, declared=True, **settings)
        if name in self._declared:
            raise errors.DuplicateJob(f"the schedule {name!r} is declared already; each needs a name of its own")
        self._declared[name] = new

    def sync(self) -> Synchronised:
        """Write what is declared in code, keeping cursors and paused states; workers do this when they start.

        A schedule that was declared and is so no more has *vanished*: it stops firing and is shown as such
        until it is declared again or deleted. Applications that share a database must not take each other's
        schedules for vanished. So only schedules declared under the same ``Jobs(application=…)`` can vanish; and
        without an application's name, only schedules of jobs that are known here, by a ``Jobs`` that declares at
        least one schedule. A ``once`` whose time has passed is not written anew, because it may have run.
        """
        self._storage.redactions.write(self._definitions.redactions)
        for new in self._declared.values():
            self._storage.schedules.register(self._sealed(new))
        return Synchronised(tuple(self._declared), tuple(self._mark_vanished()))

    def _mark_vanished(self) -> list[str]:
        if self.application is not None:
            return self._storage.schedules.mark_vanished(self._declared, self.application, None)
        if not self._declared:
            return []
        known = frozenset(definition.name for definition in self._definitions)
        return self._storage.schedules.mark_vanished(self._declared, None, known)

    @options.known_only("recurring", besides=("self", "declared"))
    def _checked(
        self,
        name: str,
        job_name: str,
        payload: Any,
        *,
        cron: str | None = None,
        every: float | timedelta | None = None,
        at: datetime | str | None = None,
        timezone: str = "UTC",
        misfire: str = "run-once",
        catch_up_limit: int = 10,
        queue: str | None = None,
        priority: int | None = None,
        paused: bool = False,
        declared: bool = False,
    ) -> NewSchedule:
        definition = self._definitions.require(job_name)
        timetable = schedule.parse(
            cron=cron,
            every=every,
            at=at,
            timezone=timezone,
            misfire=misfire,
            catch_up_limit=catch_up_limit,
            now=_ANY_DAY,
        )
        if definition.input is not None:
            payload = validate_input(payload, definition.input)
        return NewSchedule(
            id=self._ids.new("recurring"),
            name=options.text("name", name),
            job_name=job_name,
            payload=encode(payload, limit=self._payload_limit),
            job_defaults=JobDefaults.of(definition).to_json(),
            schedule=timetable,
            queue=None if queue is None else options.queue("queue", queue),
            goes_to=definition.queue if queue is None else queue,
            priority=None if priority is None else options.whole("priority", priority),
            paused=options.one_of("paused", paused, (True, False)),
            declared=declared,
            application=self.application if declared else None,
        )

    # The tick

    def tick(self, owner: str | None = None, limit: int = 100) -> list[Job]:
        """Fire up to ``limit`` due schedules, and return the jobs that this call enqueued.

        Schedulers need no lock between them, and ``owner`` is accepted from those who still name one.
        """
        limit = options.whole("limit", limit, least=1, most=TICK_LIMIT)
        if owner is not None:
            options.text("owner", owner)
        enqueued: list[Job] = []
        due = self._storage.firing.due(limit)
        while due:
            fired = self._fire(due.pop(0))
            enqueued += fired or ()
            if fired is None and due:
                # Another scheduler goes through the same list. To share it is quicker than to follow it.
                left = set(self._storage.firing.due(limit))
                due = [schedule_id for schedule_id in due if schedule_id in left]
                random.shuffle(due)
        return enqueued

    def next_in(self) -> float | None:
        """In how many seconds a tick has something to do, 0 when it has already; None when never."""
        return self._storage.firing.next_in()

    def _fire(self, schedule_id: str) -> list[Job] | None:
        sending = _Sending()

        def decide(due: StoredSchedule, now: datetime) -> Firing:
            firing = occurrences.fire(self._opened(due), self._definitions.get(due.job_name), now)
            return firing._replace(jobs=self._find_sealing().seal_new(sending.begin(firing.jobs)))

        inserted = self._storage.firing.fire(schedule_id, decide)
        return self._sent(sending, inserted) if inserted else inserted

    def _sent(self, sending: _Sending, written: Sequence[Job]) -> list[Job]:
        sending.end()
        shown = [traces.without_trace(job) for job in written]
        for observer in list(self._observers):
            for job in shown:
                observer(sending.jobs[job.id], job, True)
        return shown

    # Reading

    def get(self, name: str) -> Recurring:
        """The schedule of that name, or ``UnknownSchedule``."""
        return self._shown(self._storage.schedules.get(name), self._storage.redactions.by_name())

    def page(
        self, page_size: int = 50, cursor: str | None = None, queues: Collection[str] | None = None
    ) -> Page[Recurring]:
        """All schedules by name, or those whose jobs go to some queues; then a page may be short, even empty."""
        from sloppyjobs import paging  # noqa: PLC0415 - only who reads pages needs it

        names = paging.Paging("recurring", (str,), None if queues is None else sorted(queues))
        limit = paging.page_size(page_size)
        position = names.position(cursor)
        after = None if position.after is None else position.after[0]
        found = self._storage.schedules.page(limit + 1, after, backward=position.backward)
        secret = self._storage.redactions.by_name()
        items = [((stored.name,), self._shown(stored, secret)) for stored in found[:limit]]
        seen = [(key, shown) for key, shown in items if queues is None or shown.queue in queues]
        return names.page(seen, position, items[-1][0] if len(found) > limit else None)

    def fires(self, name: str, page_size: int = 50, cursor: str | None = None) -> Page[Job]:
        """The jobs that the schedule enqueued, newest occurrence first; also of one that is gone."""
        from sloppyjobs import paging  # noqa: PLC0415 - only who reads pages needs it

        history, limit = paging.Paging("fires", (datetime, str), name), paging.page_size(page_size)
        position = history.position(cursor)
        schedule_id = self._id_of(possible_name(name))
        found = self._storage.schedules.jobs_of(schedule_id, limit + 1, position.after, backward=position.backward)
        opened = map(self._find_sealing().open_job, found[:limit])
        items = [((job.occurrence_at, job.id), job) for job in opened]
        return history.page(items, position, items[-1][0] if len(found) > limit else None)

    def _id_of(self, name: str) -> str:
        try:
            return self._storage.schedules.get(name).id
        except errors.UnknownSchedule:
            found = self._storage.schedules.of_keys(*occurrences.occurrence_keys(name))
            if found is None:
                raise
            return found

    def _shown(self, stored: StoredSchedule, secret: Mapping[str, tuple[str, ...]]) -> Recurring:
        definition = self._definitions.get(stored.job_name)
        try:
            return occurrences.shown(self._opened(stored), definition, secret.get(stored.job_name, ()))
        except errors.DecryptionFailed as error:
            unread = occurrences.shown(msgspec.structs.replace(stored, payload="null"), definition)
            return msgspec.structs.replace(unread, payload_preview=encrypted_preview(error))

    def _sealed(self, new: NewSchedule) -> NewSchedule:
        sealing = self._find_sealing()
        if not sealing.on:
            return new
        return msgspec.structs.replace(new, payload=sealing.seal(new.name, SCHEDULE, new.payload))

    def _opened(self, stored: StoredSchedule) -> StoredSchedule:
        if not is_sealed(stored.payload):
            return stored
        opened = self._find_sealing().open(stored.name, SCHEDULE, stored.payload)
        return msgspec.structs.replace(stored, payload=opened)

    # Commands

    def create(self, name: str, job_name: str, payload: Any, settings: ScheduleSettings, command: Command) -> Recurring:
        """Write a schedule that there is not yet; ``DuplicateJob`` where there is."""
        new = self._checked(name, job_name, payload, **settings)

        def make(known: StoredSchedule | None) -> NewSchedule:
            # Its own row is there where the answer to the insert told nothing, or was lost.
            if known is not None and known.id != new.id:
                raise errors.DuplicateJob(f"a schedule is named {name!r} already; edit it, or choose another name")
            return self._sealed(new)

        return self._changed(new.name, make, command)

    def edit(self, name: str, given: Mapping[str, Any], command: Command) -> Recurring:
        """Change a schedule that was not declared in code; what is not given stays as it is."""

        def make(known: StoredSchedule | None) -> NewSchedule:
            if known is None:
                raise unknown_schedule(name)
            if known.declared:
                why = "is declared in code and changed there; here it can be paused, resumed and triggered"
                raise errors.InvalidTransition(f"the schedule {name!r} {why}")
            return self._sealed(self._checked(**edited(self._opened(known), given)))

        return self._changed(name, make, command)

    def _changed(self, name: str, make: MakeSchedule, command: Command) -> Recurring:
        self._storage.redactions.write(self._definitions.redactions)
        written = self._storage.schedules.change(name, make, command)
        return self._shown(written, self._storage.redactions.by_name())

    def trigger(self, name: str, *, actor: str | None = None, command: Command | None = None) -> Job:
        """Enqueue one job of the schedule now, paused or not; its cursor stays where it is.

        This and the commands below are audited, in the same transaction, where a ``command`` is given.
        """
        sending, id = _Sending(), self._ids.new("job")

        def make(stored: StoredSchedule, now: datetime) -> NewJob:
            definition = self._definitions.get(stored.job_name)
            made = occurrences.manual_job(self._opened(stored), definition, id=id, now=now, actor=actor)
            return self._find_sealing().seal_new(sending.begin([made]))[0]

        return self._sent(sending, [self._storage.schedules.trigger(name, make, command)])[0]

    def pause(self, name: str, command: Command | None = None) -> Recurring:
        """Let the schedule not fire until it is resumed."""
        self._storage.schedules.set_paused(name, True, command)
        return self.get(name)

    def resume(self, name: str, command: Command | None = None) -> Recurring:
        """Let it fire from its next occurrence on; what it missed is not made up for, a ``once`` excepted."""
        self._storage.schedules.set_paused(name, False, command)
        return self.get(name)

    def delete(self, name: str, command: Command | None = None) -> Recurring:
        """Remove the schedule, and return it as it was. Jobs that it enqueued stay."""
        gone = self._storage.schedules.delete(name, command)
        return self._shown(gone, self._storage.redactions.by_name())
