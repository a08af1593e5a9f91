"""Batches, as they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from sloppyjobs.domain.batches import BatchStatus
from sloppyjobs.domain.states import Status


class BatchCallback(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a batch calls for: ``kind`` is ``success``, ``failure`` or ``complete``."""

    kind: str
    name: str
    queue: str
    job_id: str
    """The id that the job has, or will have."""
    called: bool = False
    """Whether the batch has enqueued it."""
    status: Status | None = None
    """None while it has not been called for, and where its job is gone."""


class BatchView(msgspec.Struct, frozen=True, kw_only=True):
    """A batch and its numbers, by the database's clock. To somebody who sees some queues, only the jobs of those."""

    id: str
    name: str
    status: BatchStatus
    success_rate: float
    total: int
    outstanding: int
    """Jobs that have not ended."""
    succeeded: int
    dead: int
    cancelled: int
    """Jobs that were cancelled, replaced, or deleted before they ended."""
    percent: float
    """How many of a hundred have ended."""
    rate: float | None = None
    """Jobs that end in a second, on average since the first one ended; None while that cannot be said."""
    eta: datetime | None = None
    """When the last job ends at this rate; None where the batch has ended, is not sealed, or has no rate yet."""
    created_at: datetime
    started_at: datetime
    """When the batch was opened."""
    sealed_at: datetime | None = None
    finished_at: datetime | None = None
    """When it ended; None after dead jobs of it were retried, until they have ended."""
    action: str | None = None
    """``cancel`` or ``retry`` while such a command is carried out."""
    actor: str | None = None
    """Who gave the last command, and why."""
    reason: str | None = None
    metadata: Mapping[str, Any] = {}
    callbacks: tuple[BatchCallback, ...] = ()
    actions: tuple[str, ...] = ()
    """The commands that the batch can take: ``seal``, ``cancel``, ``retry``."""
    explanation: str = ""
    """What the batch waits for, or how it ended."""
    damage: str | None = None
    """Which columns cannot be read and have a substitute here; None for a row that is not damaged."""
