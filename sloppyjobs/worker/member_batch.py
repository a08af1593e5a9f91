"""The batch of a running job, as its handler sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.enqueue.option_types import CallOptions, EnqueueOptions, Item
from sloppyjobs.storage.ports import on_behalf_of_task

if TYPE_CHECKING:
    from sloppyjobs.worker.context import Reports


class MemberBatch(msgspec.Struct, eq=False, gc=False):
    """Adds jobs to the batch of a running job, also when the batch is sealed: it cannot end before this job has.

    They inherit the correlation id. ``BatchClosed`` where the batch was cancelled, or the job is not running any more.
    """

    _claim: Claim
    _reports: Reports

    @property
    def id(self) -> str:
        """The batch's id."""
        return self._claim.job.batch_id or ""

    def enqueue(self, name: str, payload: Any = None, **options: Unpack[CallOptions]) -> Job:
        """Enqueue a further job of the batch."""
        options.setdefault("correlation_id", self._claim.job.correlation_id or self._claim.job.id)
        return self._reports.add_member(self._claim, name, payload, options)

    def enqueue_many(self, items: Iterable[Item]) -> list[Job]:
        """Enqueue further jobs of the batch, all or none; items as those of ``jobs.enqueue_many``."""
        own = {"correlation_id": self._claim.job.correlation_id or self._claim.job.id}
        given: list[Any] = [_with_defaults(item, own) for item in items]
        return self._reports.add_members(self._claim, given)

    async def enqueue_async(self, name: str, payload: Any = None, **options: Unpack[EnqueueOptions]) -> Job:
        """As ``enqueue``, without blocking the event loop."""
        with on_behalf_of_task():
            return await asyncio.to_thread(lambda: self.enqueue(name, payload, **options))

    async def enqueue_many_async(self, items: Iterable[Item]) -> list[Job]:
        """As ``enqueue_many``, without blocking the event loop."""
        with on_behalf_of_task():
            return await asyncio.to_thread(self.enqueue_many, list(items))


def _with_defaults(item: Any, own: dict[str, Any]) -> Any:
    if not isinstance(item, tuple | list) or not 1 <= len(item) <= 3:
        # Refused with its position when all are read.
        return item
    given = item[2] if len(item) == 3 else {}
    return (item[0], item[1] if len(item) > 1 else None, {**own, **given} if isinstance(given, dict) else given)
