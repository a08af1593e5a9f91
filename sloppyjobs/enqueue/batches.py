"""Batches: jobs that are counted together, and jobs that are called for when all of them have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Unpack

from msgspec import structs

from sloppyjobs import errors, ids
from sloppyjobs.domain import options, payload
from sloppyjobs.domain.batches import CALLBACKS, BatchRow, NewBatch
from sloppyjobs.domain.model import Job, NewJob
from sloppyjobs.encryption import Sealing
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.enqueue.option_rules import METADATA_LIMIT, OPTIONS
from sloppyjobs.enqueue.option_types import CallOptions, EnqueueOptions, Item
from sloppyjobs.enqueue.request import NewJobs
from sloppyjobs.internals import HasInternals
from sloppyjobs.storage.ports import CallerConnection, Store, on_behalf_of_task
from sloppyjobs.storage.ports.operators import Command

if TYPE_CHECKING:
    from sloppyjobs.admin import Admin

Callback = tuple[str] | tuple[str, Any] | tuple[str, Any, EnqueueOptions | Mapping[str, Any]]
"""The job that is called for: its name, its payload, and its options."""

_NOT_OF_CALLBACKS = (
    "depends_on",
    "depends_on_any",
    "idempotency_key",
    "business_key",
    "on_conflict",
    "unique",
    "unique_for",
)
"""Options by which a job may be refused: a batch must be able to end."""


class BatchJobs(HasInternals):
    """What ``Jobs`` offers for batches."""

    definitions: Definitions
    storage: Any
    admin: Any
    _new_jobs: Callable[[], NewJobs]
    _insert: Callable[..., list[Job]]
    _connection_of: Callable[[Any, CallerConnection | None], CallerConnection | None]

    @property
    def _sealing(self) -> Sealing:
        raise NotImplementedError

    @options.known_only("batch")
    def batch(
        self,
        name: str,
        *,
        on_success: Callback | None = None,
        on_failure: Callback | None = None,
        on_complete: Callback | None = None,
        success_rate: float = 1.0,
        metadata: Mapping[str, Any] | None = None,
        session: Any = None,
        connection: Any = None,
    ) -> Batch:
        """A batch, as a context manager: written when the block begins, and sealed at its end.

        A callback is ``(name, payload)`` or ``(name, payload, options)``. ``on_complete`` and ``on_failure`` are
        enqueued once, when the batch first ends; ``on_success`` when at least ``success_rate`` of its jobs have
        succeeded, also after dead ones were retried. When the block raises, the batch is cancelled: jobs of it that
        have not ended are not run. With ``session`` or ``connection``, everything is in that transaction. Raises,
        before anything is written, ``UnknownJob``, ``InvalidPayload`` or ``InvalidOption``.
        """
        callbacks = {"success": on_success, "failure": on_failure, "complete": on_complete}
        new = self._new_batch(name, callbacks, success_rate, metadata)
        return Batch(self, new.id, new.name, session, connection, new)

    @options.known_only("open_batch")
    def open_batch(
        self,
        name: str,
        *,
        on_success: Callback | None = None,
        on_failure: Callback | None = None,
        on_complete: Callback | None = None,
        success_rate: float = 1.0,
        metadata: Mapping[str, Any] | None = None,
        session: Any = None,
        connection: Any = None,
    ) -> Batch:
        """Write a batch that takes jobs until ``seal`` is called: by this process, or by others, by ``get_batch``.

        The arguments are those of ``batch``; ``session`` and ``connection`` hold for this call alone.
        """
        callbacks = {"success": on_success, "failure": on_failure, "complete": on_complete}
        new = self._new_batch(name, callbacks, success_rate, metadata)
        made = Batch(self, new.id, new.name, session, connection, new)
        made.open()
        return Batch(self, new.id, new.name)

    def get_batch(self, batch_id: str) -> Batch:
        """The batch with this id, to add to it or to seal it; ``UnknownBatch`` where there is none."""
        row = self.storage.batch_rows.get(options.text("batch_id", batch_id), None).row
        return Batch(self, row.id, row.name)

    async def open_batch_async(self, name: str, **options: Any) -> Batch:
        """As ``open_batch``, from a coroutine."""
        with on_behalf_of_task():
            return await asyncio.to_thread(lambda: self.open_batch(name, **options))

    def _new_batch(
        self, name: str, callbacks: Mapping[str, Callback | None], success_rate: float, metadata: Any
    ) -> NewBatch:
        batch_id = self._internals.ids.new("batch")
        made = {
            kind: self._callback(f"on_{kind}", item, batch_id, kind)
            for kind, item in callbacks.items()
            if item is not None
        }
        given = {} if metadata is None else options.mapping("metadata", metadata)
        encoded = payload.encode(dict(given), what="metadata", limit=METADATA_LIMIT) if given else None
        return NewBatch(batch_id, options.text("name", name), _rate(success_rate), made, encoded)

    def _callback(self, option: str, item: Any, batch_id: str, kind: str) -> NewJob:
        assert kind in CALLBACKS
        if not isinstance(item, tuple | list) or not 1 <= len(item) <= 3 or not isinstance(item[0], str):
            raise options.refuse(option, item, "must be (name, payload) or (name, payload, options)")
        given = item[2] if len(item) == 3 else {}
        if not isinstance(given, Mapping):
            raise options.refuse(option, given, "the options must be a mapping")
        accepted = [name for name in OPTIONS if name not in _NOT_OF_CALLBACKS]
        unknown = set(given) - set(accepted)
        if unknown:
            raise options.unknown(min(map(str, unknown)), accepted, option)
        try:
            return self._new_jobs().make(
                item[0],
                item[1] if len(item) > 1 else None,
                ids.callback(batch_id, kind),
                {"correlation_id": batch_id, **given},
            )
        except errors.JobsError as error:
            raise type(error)(f"{option}: {error}") from None

    def _add_members(
        self, batch_id: str, items: Iterable[Item], adder: str | None, session: Any = None, connection: Any = None
    ) -> list[Job]:
        """Write jobs of a batch, all or none; ``adder`` is the running member that adds them."""
        given = options.listed("items", items)
        new = self._new_jobs().many(given, self._internals.ids.many("job", len(given))) if given else []
        return self._insert(_as_members(new, batch_id, adder), session, connection) if new else []

    def _add_member(self, batch_id: str, name: str, payload: Any, given: Mapping[str, Any], adder: str | None) -> Job:
        """Write one job of a batch."""
        session, connection = given.get("session"), given.get("connection")
        wanted = {option: value for option, value in given.items() if option not in ("session", "connection")}
        unknown = wanted.keys() - OPTIONS.keys()
        if unknown:
            raise options.unknown(min(unknown), OPTIONS, "enqueue")
        new = self._new_jobs().make(name, payload, self._internals.ids.new("job"), wanted)
        return self._insert(_as_members([new], batch_id, adder), session, connection)[0]


class Batch:
    """A batch that jobs are added to. Get it from ``jobs.batch``, ``jobs.open_batch`` or ``jobs.get_batch``."""

    def __init__(
        self,
        jobs: BatchJobs,
        id: str,
        name: str,
        session: Any = None,
        connection: Any = None,
        new: NewBatch | None = None,
        adder: str | None = None,
    ) -> None:
        self._jobs = jobs
        self.id = id
        self.name = name
        self._session = session
        self._connection = connection
        self._new = new
        self._adder = adder
        """The running member that adds jobs; None for everybody else."""

    def __repr__(self) -> str:
        return f"<Batch {self.id} {self.name!r}>"

    def enqueue(self, name: str, payload: Any = None, **options: Unpack[CallOptions]) -> Job:
        """Write a job that belongs to the batch, as ``jobs.enqueue`` does; ``BatchClosed`` where it is sealed.

        A job that a key finds is answered as it is there, and does not become a member.
        """
        return self._jobs._add_member(self.id, name, payload, {**self._transaction(), **options}, self._adder)

    def enqueue_many(self, items: Iterable[Item], *, session: Any = None, connection: Any = None) -> list[Job]:
        """Write many jobs that belong to the batch, all or none, as ``jobs.enqueue_many`` does."""
        given = self._transaction() if session is None and connection is None else {}
        given = given or {"session": session, "connection": connection}
        return self._jobs._add_members(self.id, items, self._adder, **given)

    def seal(self, *, session: Any = None, connection: Any = None) -> None:
        """Nothing will be added any more: the batch ends when all its jobs have. Safe to repeat.

        Running members may add to it even then, by ``ctx.batch``.
        """
        given = self._transaction() if session is None and connection is None else {}
        self._seal(**(given or {"session": session, "connection": connection}))

    async def enqueue_async(self, name: str, payload: Any = None, **options: Unpack[EnqueueOptions]) -> Job:
        """As ``enqueue``, from a coroutine, in a transaction of its own."""
        with on_behalf_of_task():
            return await asyncio.to_thread(lambda: self.enqueue(name, payload, **options))

    async def enqueue_many_async(self, items: Iterable[Item]) -> list[Job]:
        """As ``enqueue_many``, from a coroutine, in a transaction of its own."""
        given = list(items)
        with on_behalf_of_task():
            return await asyncio.to_thread(lambda: self.enqueue_many(given))

    async def seal_async(self) -> None:
        """As ``seal``, from a coroutine."""
        with on_behalf_of_task():
            await asyncio.to_thread(self.seal)

    def __enter__(self) -> Batch:
        if self._new is None:
            raise errors.InvalidOption("only jobs.batch(...) is a context manager; call seal() at the end of this one")
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        if error is None:
            self.seal()
        else:
            self._give_up(error)
        return False

    async def __aenter__(self) -> Batch:
        with on_behalf_of_task():
            return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        with on_behalf_of_task():
            return await asyncio.to_thread(self.__exit__, kind, error, trace)

    def open(self) -> None:
        """Write the batch itself."""
        assert self._new is not None
        jobs, (storage, caller) = self._jobs, self._place(**self._transaction())
        if not jobs.definitions.redactions <= storage.redactions.written:
            storage.redactions.write(jobs.definitions.redactions, caller)
        kinds, callbacks = self._new.callbacks.keys(), list(self._new.callbacks.values())
        sealed = dict(zip(kinds, jobs._sealing.seal_new(callbacks), strict=True))
        storage.batches.open(structs.replace(self._new, callbacks=sealed), caller)

    def _seal(self, session: Any = None, connection: Any = None) -> BatchRow:
        storage, caller = self._place(session, connection)
        row: BatchRow = storage.batches.seal(self.id, caller)
        return row

    def _give_up(self, error: BaseException) -> None:
        """The block has raised: what is there of the batch is not what was meant, and is cancelled."""
        reason = f"the block that filled it raised {type(error).__name__}"
        try:
            storage, caller = self._place(**self._transaction())
            if caller is None:
                admin: Admin = self._jobs.admin
                admin.cancel_batch(self.id, actor="sloppyjobs", reason=reason)
            else:
                storage.batch_commands.begin_cancel(self.id, Command("cancel_batch", "sloppyjobs", reason), caller)
        except Exception as failed:
            # Of a caller's transaction that the error has broken, nothing is left anyway.
            error.add_note(f"batch {self.id} could not be cancelled: {type(failed).__name__}")

    def _transaction(self) -> dict[str, Any]:
        given = {"session": self._session, "connection": self._connection}
        return {option: value for option, value in given.items() if value is not None}

    def _place(self, session: Any = None, connection: Any = None) -> tuple[Any, CallerConnection | None]:
        """The storage that writes in the caller's transaction, and its connection; or ours."""
        caller = self._jobs._connection_of(session, connection)
        storage: Store = self._jobs.storage
        return (storage, None) if caller is None else (storage.callers.storage_for(caller), caller)


def _as_members(new: Sequence[NewJob], batch_id: str, adder: str | None) -> list[NewJob]:
    """The jobs as members of a batch; those that share their terms go on doing so."""
    terms = {
        id(one): structs.replace(one, batch_id=batch_id, batch_adder=adder)
        for one in {id(job.terms): job.terms for job in new}.values()
    }
    return [NewJob(job.id, job.payload, terms[id(job.terms)]) for job in new]


def _rate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise options.refuse("success_rate", value, "must be a number from 0 to 1, such as 0.95")
    return float(value)
