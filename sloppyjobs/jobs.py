"""``Jobs``: define, enqueue, claim and settle. The object that an application holds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, Never, Unpack

from msgspec import structs
from sqlalchemy import URL, Connection, Engine

from sloppyjobs.alerting.declaring import AlertDeclaring, new_rules
from sloppyjobs.claim_protocol import ClaimProtocol
from sloppyjobs.domain import deploys, options, payload
from sloppyjobs.domain.dependencies import Dependency
from sloppyjobs.domain.model import Job, NewJob
from sloppyjobs.domain.retry import Retry
from sloppyjobs.domain.workflows import NewWorkflow
from sloppyjobs.encryption import Keyring, Sealing
from sloppyjobs.enqueue.asynchronous import AsyncJobs
from sloppyjobs.enqueue.batches import BatchJobs
from sloppyjobs.enqueue.defining import Defining
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.enqueue.option_types import DelayedOptions, Duration, EnqueueOptions, Item, Moment, Parents
from sloppyjobs.enqueue.request import NewJobs, connection_of, inherited_options
from sloppyjobs.enqueue.signalling import Signalling
from sloppyjobs.enqueue.waiting import Waiting, id_of
from sloppyjobs.ids import Ids
from sloppyjobs.internals import Internals
from sloppyjobs.limits import LimitedJobs, declared
from sloppyjobs.locks import Locks, held_lock
from sloppyjobs.observe import traces
from sloppyjobs.observe.hooks import F, Hooks
from sloppyjobs.retention import Retention
from sloppyjobs.schedules.occurrences import Recurring
from sloppyjobs.schedules.registry import Schedules
from sloppyjobs.schedules.settings import ScheduleSettings
from sloppyjobs.storage import from_url
from sloppyjobs.storage.ports import CallerConnection, CallerStore, EnqueuePort, Store
from sloppyjobs.views import Page
from sloppyjobs.workflow.flows import WorkflowJobs

if TYPE_CHECKING:
    from sqlalchemy.orm import Session, scoped_session

    from sloppyjobs.admin import Admin
    from sloppyjobs.worker import Worker
    from sloppyjobs.worker.runners.find_jobs import Find


class Jobs(
    Defining, Waiting, AsyncJobs, ClaimProtocol, WorkflowJobs, BatchJobs, LimitedJobs, Signalling, AlertDeclaring
):
    """Durable jobs in one database. Making it opens no connection and starts nothing.

    ``target`` is a SQLAlchemy URL, an ``Engine``, a storage made by ``sloppyjobs.storage``, or a store of your own with
    its ports. Applications that share a database and declare schedules each give their name as ``application``.
    ``principal`` is asked, at each enqueue that names none, on whose behalf it is; None where that is nobody's.
    With a ``Keyring`` as ``encryption``, payloads, results and log lines are stored encrypted. ``app_version`` is the
    application's own: the first worker with another one than the latest deploy's marks a deploy, as operators see.
    """

    def __init__(
        self,
        target: str | URL | Engine | Store,
        *,
        payload_limit: int = payload.DEFAULT_LIMIT,
        application: str | None = None,
        principal: Callable[[], str | None] | None = None,
        encryption: Keyring | None = None,
        app_version: str | None = None,
    ) -> None:
        # Whatever has the ports is a store, whoever wrote it.
        if isinstance(target, str | URL | Engine) or not isinstance(target, EnqueuePort):
            self._storage: Store = from_url(target)
        else:
            self._storage = target
        self._set_up(payload_limit, application, principal, encryption)
        self.app_version = None if app_version is None else deploys.app_version("app_version", app_version)
        self._sealing.serve(self._storage)

    def _set_up(
        self,
        payload_limit: int,
        application: str | None,
        principal: Callable[[], str | None] | None,
        encryption: Keyring | None,
    ) -> None:
        """Everything but the storage, which may be known later."""
        self._principal = None if principal is None else options.function("principal", principal)
        self._payload_limit = options.whole("payload_limit", payload_limit, least=1)
        self.definitions = Definitions()
        new_ids = Ids(lambda: time.time_ns() // 1_000_000)
        self._internals = Internals(new_ids, Hooks(), [], self._find_jobs, Sealing(encryption))
        self.retention = Retention()
        self.alerts = new_rules(application)
        self.schedules = Schedules(
            lambda: self.storage,
            lambda: self.definitions,
            self._internals.ids,
            payload_limit=self._payload_limit,
            application=application,
            observers=self._internals.observers,
            sealing=lambda: self._sealing,
        )
        self.declared_limits, self.declared_queues = declared(lambda: self.storage, lambda: self.schedules.application)

    def __reduce__(self) -> Never:
        raise TypeError("a Jobs cannot be sent to another process: make it at the top of a module, and import it there")

    @property
    def _sealing(self) -> Sealing:
        return self._internals.sealing

    @property
    def storage(self) -> Store:
        """Where the jobs are kept."""
        return self._storage

    def init(self) -> int:
        """Create the tables or bring them up to date; returns the schema's version. Safe to repeat, and to race."""
        return self.storage.init()

    @property
    def admin(self) -> Admin:
        """What operators see and do."""
        from sloppyjobs.admin import Admin  # noqa: PLC0415 - workers and producers never need it

        more = self._internals.ids, self._sealing, self._payload_limit, self.alerts
        return Admin(self.storage, self.definitions, self.schedules, *more)

    # Hooks

    def middleware(self, function: F) -> F:
        """Surround every handler with ``function(ctx, payload, call_next)``; the first that is registered is outermost.

        ``call_next()`` goes on, or ``call_next(ctx, payload)`` with another payload; what it returns is the handler's
        answer. A coroutine function surrounds coroutines and awaits ``call_next``; any other surrounds functions.
        Around a handler with ``isolation="process"`` it runs in that process, which imports these jobs again: they must
        have a name at the top of a module, or the attempt fails.
        """
        return self._internals.hooks.add_middleware(function)

    def on_dead(self, function: F) -> F:
        """Call ``function(job)`` whenever an attempt has left its job dead, in the process that settled the attempt.

        That is its worker, or the one that found its lease expired; of workers written by others, the process that
        calls ``fail`` or ``claim``. It is called after the settlement was accepted, outside its transaction. What it
        raises is logged and harms nothing.
        """
        return self._internals.hooks.add_dead(function)

    def on_retry(self, function: F) -> F:
        """Call ``function(job)`` whenever an attempt has failed or was lost and its job will be tried again.

        As ``on_dead``; ``job.run_at`` says when. A handler that asks to be called again has not failed.
        """
        return self._internals.hooks.add_retry(function)

    # Enqueueing

    @options.known_only("enqueue")
    def enqueue(
        self,
        name: str,
        payload: Any = None,
        *,
        queue: str | None = None,
        priority: int | None = None,
        delay: Duration | None = None,
        run_at: Moment | None = None,
        idempotency_key: str | None = None,
        max_attempts: int | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        correlation_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        principal: str | None = None,
        depends_on: Parents | None = None,
        depends_on_any: bool | None = None,
        tags: Iterable[str] | None = None,
        version: int | None = None,
        expires: Duration | None = None,
        business_key: str | None = None,
        on_conflict: Literal["return", "reject", "replace"] | None = None,
        unique: Literal["live", "pending"] | None = None,
        unique_for: Duration | None = None,
        resource: str | None = None,
        partition: str | int | None = None,
        session: Session | scoped_session[Any] | None = None,
        connection: Connection | None = None,
    ) -> Job:
        """Write a job, in the caller's transaction where ``session`` or ``connection`` is given.

        A job whose ``idempotency_key`` is taken is not written; the one that has the key is returned, with
        ``existing`` set. So is one whose ``business_key`` a live job has, unless ``on_conflict`` says "reject"
        (``KeyConflict``) or "replace"; ``unique="pending"`` gives the key up when the job starts, and ``unique_for``
        keeps it for that long even if the job ends sooner. A job that ``expires`` is cancelled unless it has started
        within so many seconds. One that ``depends_on`` others waits until all of them have ended as it needs, or with
        ``depends_on_any`` one of them. One with a ``resource`` runs under the limit of that name, and in a
        ``partition`` under its own share of it. Raises, before anything is written, ``UnknownJob``,
        ``InvalidPayload`` or ``InvalidOption``.
        """
        given = {
            "queue": queue,
            "priority": priority,
            "delay": delay,
            "run_at": run_at,
            "idempotency_key": idempotency_key,
            "max_attempts": max_attempts,
            "retry": retry,
            "timeout": timeout,
            "correlation_id": correlation_id,
            "metadata": metadata,
            "principal": principal,
            "depends_on": depends_on,
            "depends_on_any": depends_on_any,
            "tags": tags,
            "version": version,
            "expires": expires,
            "business_key": business_key,
            "on_conflict": on_conflict,
            "unique": unique,
            "unique_for": unique_for,
            "resource": resource,
            "partition": partition,
        }
        new = self._new_jobs().make(name, payload, self._internals.ids.new("job"), given)
        return self._insert([new], session, connection)[0]

    @options.known_only("enqueue_many")
    def enqueue_many(
        self,
        items: Iterable[Item],
        *,
        session: Session | scoped_session[Any] | None = None,
        connection: Connection | None = None,
    ) -> list[Job]:
        """Write many jobs, all or none: ``(name, payload)`` or ``(name, payload, options)`` each."""
        given = options.listed("items", items)
        new = self._new_jobs().many(given, self._internals.ids.many("job", len(given)))
        return self._insert(new, session, connection) if new else []

    def enqueue_delayed(self, name: str, payload: Any, delay: Duration, **options: Unpack[DelayedOptions]) -> Job:
        """Enqueue for ``delay`` seconds from now."""
        return self.enqueue(name, payload, delay=delay, **options)

    def enqueue_at(self, name: str, payload: Any, when: Moment, **options: Unpack[DelayedOptions]) -> Job:
        """Enqueue for an instant; one in the past is due at once."""
        return self.enqueue(name, payload, run_at=when, **options)

    def chain(
        self,
        items: Iterable[Item],
        *,
        session: Session | scoped_session[Any] | None = None,
        connection: Connection | None = None,
    ) -> list[Job]:
        """Write jobs of which each waits for the success of the one before, all or none: items as ``enqueue_many``."""
        given = options.listed("items", items)
        new = self._new_jobs().many(given, self._internals.ids.many("job", len(given))) if given else []
        linked = list(new[:1])
        for place, (before, job) in enumerate(pairwise(new), 1):
            if job.terms.depends_on_any:
                wrong, why = f"items[{place}].depends_on_any", "a job of a chain waits for the one before in any case"
                raise options.refuse(wrong, True, why)
            after = (*job.terms.depends_on, Dependency(before.id, "success"))
            linked.append(structs.replace(job, terms=structs.replace(job.terms, depends_on=after)))
        return self._insert(linked, session, connection) if linked else []

    def replace(
        self,
        job_id: Job[Any] | str,
        payload: Any = None,
        *,
        session: Session | scoped_session[Any] | None = None,
        connection: Connection | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> Job:
        """Write a job in the place of one that is not running and has not ended, which is cancelled.

        What ``options`` do not say is as in the replaced job: queue, priority, run time, timeout, attempts, business
        key, correlation id, metadata, principal. With ``delay`` each call puts the work off anew. ``superseded_by`` of
        the old job and ``supersedes`` of the new one name the other. A job that waits for others needs ``depends_on``,
        or ``()``. Raises ``InvalidTransition`` where the old job runs or has ended, and whatever ``enqueue`` raises.
        """
        old = self._read_in(id_of(job_id), self._connection_of(session, connection))
        given = {**inherited_options(old, options), **options}
        made = self._new_jobs().make(old.name, payload, self._internals.ids.new("job"), given)
        new = structs.replace(made, terms=structs.replace(made.terms, supersedes=old.id))
        return self._insert([new], session, connection)[0]

    def get(self, job_id: str) -> Job:
        """The job with this id, as it is now, or ``UnknownJob``. An encrypted ``result`` raises without its key."""
        return self._sealing.open_job(traces.without_trace(self.storage.get_job(job_id)))

    def _read_in(self, job_id: str, caller: CallerConnection | None) -> Job:
        """As ``get``, in the caller's transaction where there is one: it may have written the job itself."""
        if caller is None:
            return self.get(job_id)
        store: CallerStore = self.storage.callers.storage_for(caller)
        return self._sealing.open_job(traces.without_trace(store.get_job(job_id, caller)))

    def _new_jobs(self) -> NewJobs:
        return NewJobs(self.definitions, self._payload_limit, self._principal)

    def _insert_flow(
        self, new: Sequence[NewJob], workflow: NewWorkflow, session: Any = None, connection: CallerConnection = None
    ) -> list[Job]:
        return self._insert(new, session, connection, workflow)

    def _insert(
        self, new: Sequence[NewJob], session: Any, connection: CallerConnection, workflow: NewWorkflow | None = None
    ) -> list[Job]:
        caller = self._connection_of(session, connection)
        storage: CallerStore = self.storage if caller is None else self.storage.callers.storage_for(caller)
        tracer = traces.tracer() if traces.OPENTELEMETRY in sys.modules else None
        keys = self._sealing.keyring
        if not self.definitions.redactions <= storage.redactions.written:
            storage.redactions.write(self.definitions.redactions, caller)
        write: Callable[..., list[Job]] = storage.insert_jobs
        if workflow is not None:
            write = partial(storage.workflows.insert, workflow)
        if tracer is not None:
            new, written = traces.produce(tracer, new, lambda traced: write(self._sealing.seal_new(traced), caller))
        else:
            written = write(new if keys is None else self._sealing.seal_new(new), caller)
        if keys is not None or any(map(attrgetter("existing"), written)):
            written = [self._sealing.open_job(job) for job in written]
        for observer in list(self._internals.observers):
            for source, job in zip(new, written, strict=True):
                observer(source, job, caller is None)
        return written

    def _connection_of(self, session: Any, connection: CallerConnection | None) -> CallerConnection | None:
        return connection_of(session, connection)

    # Schedules

    def recurring(
        self, name: str, job_name: str, payload: Any = None, **settings: Unpack[ScheduleSettings]
    ) -> Recurring:
        """Write a schedule now: exactly one of ``cron``, ``every`` (seconds) and ``at`` (once, then gone).

        A name that is there already is updated, and keeps its cursor, unless its timing changed, and its paused
        state. Raises, before anything is written, ``UnknownJob``, ``InvalidSchedule``, ``InvalidPayload`` or
        ``InvalidOption``. At the top of a module, where no connection is wanted yet, use ``declare_recurring``.
        """
        return self.schedules.register(name, job_name, payload, **settings)

    def declare_recurring(
        self, name: str, job_name: str, payload: Any = None, **settings: Unpack[ScheduleSettings]
    ) -> None:
        """Declare a schedule in code, checked as by ``recurring``; workers write it when they start."""
        self.schedules.declare(name, job_name, payload, **settings)

    def tick_recurring(self, owner: str | None = None, limit: int = 100) -> list[Job]:
        """Fire what is due, at most ``limit`` schedules, and return the jobs that this call enqueued.

        Safe to call from anywhere, any number at once: an occurrence becomes one job. Workers do it by themselves.
        """
        return self.schedules.tick(owner, limit)

    def fires(self, name: str, page_size: int = 50, cursor: str | None = None) -> Page[Job]:
        """A schedule's history, newest first: the jobs that it enqueued, even when it is gone itself."""
        return self.schedules.fires(name, page_size, cursor)

    # Workers

    def create_worker(self, **settings: Any) -> Worker:
        """A worker for this ``Jobs``; see ``sloppyjobs.worker.Worker`` for the settings. Starts nothing."""
        from sloppyjobs.worker import Worker  # noqa: PLC0415 - producers never need it

        return Worker(self, **settings)

    def _find_jobs(self) -> Find | None:
        from sloppyjobs.worker.runners.find_jobs import by_name  # noqa: PLC0415 - producers never need it

        return by_name(self)

    # Locks

    def locks(self, owner: str) -> Locks:
        """Named locks on behalf of ``owner``."""
        return Locks(self.storage.locks, owner)

    def lock(self, name: str, ttl: Duration = 30) -> AbstractContextManager[Locks]:
        """Hold a lock for the length of a block, under a token of its own; ``LockConflict`` when it is held."""
        return held_lock(self.storage.locks, name, self._internals.ids.new("lock"), ttl)
