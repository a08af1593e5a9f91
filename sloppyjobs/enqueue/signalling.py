"""Signals to jobs whose handlers wait for them, from functions and from coroutines."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sloppyjobs.domain import options
from sloppyjobs.domain import payload as payloads
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.steps import StepKind, name_of
from sloppyjobs.encryption import Sealing, sealed_as
from sloppyjobs.enqueue.asynchronous import run_from_coroutine
from sloppyjobs.enqueue.waiting import id_of
from sloppyjobs.storage.ports import CallerConnection
from sloppyjobs.storage.ports.steps import SentSignal, SignalPort

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session


class Signalling:
    """What ``Jobs`` offers to send signals."""

    storage: Any
    _payload_limit: int
    _connection_of: Callable[[Any, CallerConnection | None], CallerConnection | None]

    @property
    def _sealing(self) -> Sealing:
        raise NotImplementedError

    def signal(
        self,
        job_id: Job[Any] | str | None = None,
        name: str = "",
        payload: Any = None,
        *,
        business_key: str | None = None,
        session: Session | scoped_session[Any] | None = None,
        connection: Connection | None = None,
    ) -> bool:
        """Send a signal to a job, or to the live job with a business key: ``ctx.wait_for(name)`` gets the payload.

        It is kept until it is asked for. The first signal of a name wins: False where the job has had one. With
        ``session`` or ``connection`` it is sent in the caller's transaction, and the job goes on when that commits.
        Raises, before anything is written, ``UnknownJob``, ``InvalidTransition`` for a new signal to a job that has
        finished, ``InvalidPayload`` or ``InvalidOption``.
        """
        sent = sent_signal(name, payload, self._payload_limit)
        caller = self._connection_of(session, connection)
        store = self.storage if caller is None else self.storage.callers.storage_for(caller)
        signals: SignalPort = store.signals
        target = signalled_job(signals, job_id, business_key, caller)
        sealed = self._sealing.seal(target, sealed_as(StepKind.SIGNAL, sent.name), sent.value)
        return signals.send(target, sent._replace(value=sealed), None, caller)

    async def signal_async(
        self,
        job_id: Job[Any] | str | None = None,
        name: str = "",
        payload: Any = None,
        *,
        business_key: str | None = None,
        session: AsyncSession | async_scoped_session[Any] | None = None,
        connection: AsyncConnection | None = None,
    ) -> bool:
        """As ``signal``, without blocking the event loop. A call that is cancelled may have sent it all the same."""
        send = partial(self.signal, job_id, name, payload, business_key=business_key)
        return await run_from_coroutine(send, session, connection)


def signalled_job(
    signals: SignalPort, job: Job[Any] | str | None, business_key: str | None, caller: CallerConnection | None = None
) -> str:
    """The id of the job that a signal is for."""
    if business_key is not None and job is None:
        return signals.job_with_key(options.text("business_key", business_key, longest=options.KEY_LENGTH), caller)
    if business_key is not None or job is None:
        raise options.refuse("job_id", job, "give either the id of a job or a business_key")
    return id_of(job)


def sent_signal(name: object, payload: Any, limit: int = payloads.DEFAULT_LIMIT) -> SentSignal:
    """A signal that can be written; ``InvalidOption`` or ``InvalidPayload`` says what is wrong with it."""
    return SentSignal(name_of("name", name), payloads.encode(payload, limit), uuid4().hex)
