"""Limits, their partitions, and who holds their permits."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sloppyjobs.views.page import CappedCount


class LimitView(msgspec.Struct, frozen=True, kw_only=True):
    """A limit: what each partition of a resource allows, and how much of it is in use in all of them."""

    name: str
    concurrency: int | None
    """How many jobs run at once; None for any number."""
    rate: int | None
    """How many start in ``per`` seconds; None for any number."""
    per: float | None
    declared: bool
    """Whether code declares it, or did."""
    changed: bool
    """Whether it is not what the code says, because somebody has changed it since."""
    vanished_at: datetime | None
    """Since when no code declares it any more; it limits nothing then."""
    held: int
    """Permits that jobs hold."""
    waiting: CappedCount
    """Jobs that wait for a permit."""
    created_at: datetime
    updated_at: datetime

    @property
    def vanished(self) -> bool:
        """Whether the code that declared it does so no more."""
        return self.vanished_at is not None


class PermitView(msgspec.Struct, frozen=True, kw_only=True):
    """A permit: the job that holds it, since when, and the worker that runs the job."""

    job_id: str | None
    """None where the job is in a queue that may not be seen."""
    taken_at: datetime
    partition: str | None = None
    name: str | None = None
    queue: str | None = None
    worker_id: str | None = None


class PartitionView(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a resource, with permits of its own."""

    partition: str | None
    """None for the jobs that name no partition."""
    held: int
    waiting: CappedCount
    tokens: int | None = None
    """How many jobs may start now by the rate; None where there is none."""
    next_since: datetime | None = None
    """Since when the first in line waits; None where nobody does."""
    next_id: str | None = None
    """The first in line; None also where its queue may not be seen."""
    next_name: str | None = None


class FullPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a resource in which jobs wait for permits."""

    resource: str
    partition: str | None
    waiting: CappedCount
    held: int
    concurrency: int | None
    tokens: int | None
    """How many jobs may start now by the rate; None where there is none."""
    next_since: datetime | None
    """Since when the first in line waits."""


class LimitDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A limit with its partitions and the holders of its permits, up to a bound."""

    limit: LimitView
    partitions: tuple[PartitionView, ...]
    holders: tuple[PermitView, ...]
    more: bool
    """Whether there are more of either."""
