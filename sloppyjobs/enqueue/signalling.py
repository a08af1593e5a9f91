"""Signals to jobs whose handlers wait for them, from functions and from coroutines."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from sloppyjobs.domain import options
from sloppyjobs.domain import payload as payloads
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.steps import StepKind, name_of
from sloppyjobs.encryption import Sealing, sealed_as
from sloppyjobs.enqueue.waiting import id_of
from sloppyjobs.storage.ports import Store, on_behalf_of_task
from sloppyjobs.storage.ports.steps import SentSignal


class Signalling:
    """What ``Jobs`` offers to send signals."""

    storage: Any
    _payload_limit: int

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
    ) -> bool:
        """Send a signal to a job, or to the live job with a business key: ``ctx.wait_for(name)`` gets the payload.

        It is kept until it is asked for. The first signal of a name wins: False where the job has one already. Raises,
        before anything is written, ``UnknownJob``, ``InvalidTransition`` for a job that has finished,
        ``InvalidPayload`` or ``InvalidOption``.
        """
        sent = sent_signal(name, payload, self._payload_limit)
        store: Store = self.storage
        target = signalled_job(store, job_id, business_key)
        sealed = self._sealing.seal(target, sealed_as(StepKind.SIGNAL, sent.name), sent.value)
        return store.signals.send(target, sent._replace(value=sealed))

    async def signal_async(
        self,
        job_id: Job[Any] | str | None = None,
        name: str = "",
        payload: Any = None,
        *,
        business_key: str | None = None,
    ) -> bool:
        """As ``signal``, without blocking the event loop. A call that is cancelled may have sent it all the same."""
        with on_behalf_of_task():
            return await asyncio.to_thread(self.signal, job_id, name, payload, business_key=business_key)


def signalled_job(store: Store, job: Job[Any] | str | None, business_key: str | None) -> str:
    """The id of the job that a signal is for."""
    if business_key is not None and job is None:
        return store.signals.job_with_key(options.text("business_key", business_key, longest=options.KEY_LENGTH))
    if business_key is not None or job is None:
        raise options.refuse("job_id", job, "give either the id of a job or a business_key")
    return id_of(job)


def sent_signal(name: object, payload: Any, limit: int = payloads.DEFAULT_LIMIT) -> SentSignal:
    """A signal that can be written; ``InvalidOption`` or ``InvalidPayload`` says what is wrong with it."""
    return SentSignal(name_of("name", name), payloads.encode(payload, limit), uuid4().hex)
