"""Enqueueing and waiting from coroutines, without blocking their event loop.

In the transaction of an ``AsyncSession`` or ``AsyncConnection`` the statements are awaited as the caller's own are.
Without one the call runs in a thread, on a connection of the jobs' engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.domain.model import Job
from sloppyjobs.enqueue.option_types import Duration, EnqueueOptions, Item
from sloppyjobs.enqueue.waiting import WaitBackoff, id_of
from sloppyjobs.storage.ports import on_behalf_of_task

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

T = TypeVar("T")
R = TypeVar("R")


class AsyncJobs:
    """What ``Jobs`` offers to coroutines."""

    enqueue: Callable[..., Job]
    enqueue_many: Callable[..., list[Job]]
    get: Callable[[str], Job]

    async def enqueue_async(
        self,
        name: str,
        payload: Any = None,
        *,
        session: AsyncSession | async_scoped_session[Any] | None = None,
        connection: AsyncConnection | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> Job:
        """Write a job, as ``enqueue`` does and with the same options; in the caller's transaction where one is given.

        A call without one that is cancelled may have written its job all the same, whole; with an
        ``idempotency_key`` it can be repeated.
        """
        return await run_from_coroutine(partial(self.enqueue, name, payload, **options), session, connection)

    async def enqueue_many_async(
        self,
        items: Iterable[Item],
        *,
        session: AsyncSession | async_scoped_session[Any] | None = None,
        connection: AsyncConnection | None = None,
    ) -> list[Job]:
        """Write many jobs, all or none, as ``enqueue_many`` does; cancelled, as ``enqueue_async``."""
        return await run_from_coroutine(partial(self.enqueue_many, list(items)), session, connection)

    @overload
    async def wait_async(self, job: Job[R], /, timeout: Duration = 10) -> Job[R]: ...
    @overload
    async def wait_async(self, job_id: str, timeout: Duration = 10) -> Job: ...

    async def wait_async(self, job_id: Job[Any] | str, timeout: Duration = 10) -> Job[Any]:
        """Wait until the job, or the one with this id, has finished, and return it, as ``wait`` does."""
        backoff, wanted = WaitBackoff(timeout), id_of(job_id)
        while True:
            # No thread is held between two polls: many coroutines may wait at once.
            job = await asyncio.to_thread(self.get, wanted)
            delay = backoff.next_delay(job)
            if delay is None:
                return job
            await asyncio.sleep(delay)


async def run_from_coroutine(work: Callable[..., T], session: Any, connection: Any) -> T:
    """Run ``work`` in the transaction of the caller's session or connection, or in a thread where none is given."""
    if session is not None and connection is not None:
        raise errors.InvalidOption("session and connection exclude each other: pass one of them")
    for option, given in (("session", current_session(session)), ("connection", connection)):
        if given is not None:
            if not hasattr(given, "run_sync"):
                wanted = f"must be an Async{option.capitalize()}: a synchronous one would block the event loop"
                raise options.refuse(option, given, wanted)
            return await _in_transaction(work, option, given)
    with on_behalf_of_task():
        return await asyncio.to_thread(work)


def current_session(session: Any) -> Any:
    """The session of the task, of an ``async_scoped_session``; any other as it is."""
    registry = getattr(session, "registry", None)
    return session if registry is None or hasattr(session, "run_sync") else registry()


async def _in_transaction(work: Callable[..., T], option: str, given: Any) -> T:
    done: T = await given.run_sync(lambda synchronous: work(**{option: synchronous}))
    return done
