"""Limits: what they allow, who holds their permits, who waits; and the commands on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from typing import Final, Literal

import msgspec

from sloppyjobs import errors
from sloppyjobs.admin.filters import command_given, scope_of
from sloppyjobs.domain import options
from sloppyjobs.domain.limits import NO_PARTITION, checked, resource
from sloppyjobs.paging import Paging
from sloppyjobs.paging import page_size as checked_size
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.limits import Held, LineHead, StoredLimit, Usage
from sloppyjobs.views import (
    CappedCount,
    FullPartition,
    JobView,
    LimitDetails,
    LimitView,
    Page,
    PartitionView,
    PermitView,
)

Duration = float | timedelta
DETAILS = 100
"""Partitions and holders that the details of a limit show."""
COUNTED = 1_000
"""Permits of a resource that are counted by partition."""
LINES = 3
"""Lines of each resource that are looked at to say where jobs wait."""


class Unchanged(Enum):
    """Stands for a value that is left as it is."""

    KEEP = "as it is"


KEEP: Final = Unchanged.KEEP
Keep = Literal[Unchanged.KEEP]


class LimitAdmin:
    """The part of ``jobs.admin`` that concerns limits."""

    _storage: Store

    def get_job(self, id: str) -> JobView:
        """The job, as the admin shows it."""
        raise NotImplementedError

    def list_limits(self, *, cursor: str | None = None, page_size: int = 50) -> Page[LimitView]:
        """Every limit, by name."""
        paging, size = Paging("limits", (str,)), checked_size(page_size)
        position = paging.position(cursor)
        after = None if position.after is None else position.after[0]
        found = self._storage.limits.page(size + 1, after, backward=position.backward)
        usage = self._storage.limits.usage([stored.limit.name for stored in found[:size]])
        items = [((stored.limit.name,), _view(stored, usage[stored.limit.name])) for stored in found[:size]]
        return paging.page(items, position, items[-1][0] if len(found) > size else None)

    def get_limit(self, name: str) -> LimitView:
        """One limit; ``UnknownLimit`` where there is none."""
        stored = self._storage.limits.get(name)
        return _view(stored, self._storage.limits.usage([stored.limit.name])[stored.limit.name])

    def limit_details(self, name: str, *, scope: Iterable[str] | None = None) -> LimitDetails:
        """A limit with its partitions, those first in which jobs wait, and who holds its permits.

        ``scope`` keeps jobs of other queues from being named.
        """
        limit = self.get_limit(name)
        found = self._storage.limits.holders(limit.name, DETAILS + 1)
        held = sorted(found, key=lambda one: (one.partition, one.taken_at, one.job_id))
        lines = self._storage.limits.lines(limit.name, DETAILS + 1)
        visible = scope_of(scope)
        heads = {one.partition: one for one in self._storage.limits.heads(limit.name, DETAILS)} if lines else {}
        named = {one.partition for one in held} | {partition for partition, *_ in lines}
        tokens = self._storage.limits.tokens(limit.name, sorted(named)) if limit.rate is not None else {}
        partitions = _partitions(held, lines, heads, tokens, visible)
        return LimitDetails(
            limit=limit,
            partitions=partitions[:DETAILS],
            holders=tuple(_permit(one, visible) for one in held[:DETAILS]),
            more=len(held) > DETAILS or len(partitions) > DETAILS,
        )

    def full_partitions(self, names: Sequence[str]) -> tuple[FullPartition, ...]:
        """Where jobs wait for permits of these resources: the longest waiting first, and a few lines of each."""
        found = []
        for name in options.listed("names", names):
            limit = self._storage.limits.get(name).limit
            heads = self._storage.limits.heads(name, LINES)
            tokens = self._storage.limits.tokens(name, [one.partition for one in heads])
            found += [
                FullPartition(
                    resource=name,
                    partition=None if one.partition == NO_PARTITION else one.partition,
                    waiting=CappedCount(one.waiting, one.waiting_more),
                    held=one.held,
                    concurrency=limit.concurrency,
                    tokens=tokens.get(one.partition),
                    next_since=one.since,
                )
                for one in heads
            ]
        return tuple(sorted(found, key=lambda one: (one.next_since is None, one.next_since, one.resource)))

    def fullest_partitions(self, names: Sequence[str]) -> dict[str, int]:
        """By resource, how many permits the partition holds that holds most; without those that hold over 1,000."""
        found = {}
        for name in [resource("names", name) for name in options.listed("names", names)]:
            held = self._storage.limits.holders(name, COUNTED + 1)
            if held and len(held) <= COUNTED:
                found[name] = max(Counter(one.partition for one in held).values())
        return found

    def set_limit(
        self,
        name: str,
        *,
        concurrency: int | Keep | None = KEEP,
        rate: int | Keep | None = KEEP,
        per: Duration | Keep | None = KEEP,
        create: bool = False,
        actor: str | None = None,
        reason: str | None = None,
    ) -> LimitView:
        """Change a limit; what is not given stays as it is, and None means no limit.

        It is in force at once: a higher limit lets jobs go on that wait, a lower one ends none. ``UnknownLimit`` where
        there is none; ``create`` makes one, for a resource that jobs name or will name.
        """
        name = resource("name", name)
        create = options.truth("create", create)
        try:
            known = self._storage.limits.get(name).limit
        except errors.UnknownLimit:
            if not create:
                raise
            known = checked(name)
        without_rate = rate is None and per is KEEP
        wanted = checked(
            name,
            known.concurrency if concurrency is KEEP else concurrency,
            known.rate if rate is KEEP else rate,
            None if without_rate else known.per if per is KEEP else per,
        )
        if create:
            self._storage.limits.ensure(name)
        self._storage.limits.change(wanted, command_given("set_limit", actor, reason))
        return self.get_limit(name)

    def delete_limit(self, name: str, *, actor: str | None = None, reason: str | None = None) -> LimitView:
        """Remove a limit, and return it as it was; whoever waits for its permits goes on."""
        before = self.get_limit(name)
        self._storage.limits.delete(before.name, command_given("delete_limit", actor, reason))
        return before

    def release_permit(self, job_id: str, *, actor: str | None = None, reason: str | None = None) -> JobView:
        """Take the permit away from a job and give it to the next in line. The job may still run: more may then run at
        once than the limit says.

        A permit comes back by itself when its job ends or its lease expires. ``PermitNotHeld`` where the job has none.
        """
        job = self.get_job(job_id)
        if not self._storage.limits.release_permit(job_id, command_given("release_permit", actor, reason)):
            raise errors.PermitNotHeld(f"job {job_id} is {job.status} and holds no permit")
        return self.get_job(job_id)


def _view(stored: StoredLimit, usage: Usage) -> LimitView:
    return LimitView(
        **msgspec.structs.asdict(stored.limit),
        declared=stored.declared,
        changed=stored.declared_as is not None and stored.declared_as != stored.limit,
        vanished_at=stored.vanished_at,
        held=usage.held,
        waiting=CappedCount(usage.waiting, usage.waiting_more),
        created_at=stored.created_at,
        updated_at=stored.updated_at,
    )


def _partitions(
    held: Sequence[Held],
    lines: Sequence[tuple[str, int, bool]],
    heads: Mapping[str, LineHead],
    tokens: Mapping[str, int],
    scope: Sequence[str] | None,
) -> tuple[PartitionView, ...]:
    permits = Counter(one.partition for one in held)
    waiting = {partition: CappedCount(number, more) for partition, number, more in lines}
    idle = sorted(permits.keys() - waiting.keys())
    found = []
    for partition in [*waiting, *idle]:
        head = heads.get(partition)
        seen = head is not None and (scope is None or head.queue in scope)
        found.append(
            PartitionView(
                partition=None if partition == NO_PARTITION else partition,
                held=permits[partition],
                waiting=waiting.get(partition, CappedCount(0)),
                tokens=tokens.get(partition),
                next_since=None if head is None else head.since,
                next_id=head.job_id if head is not None and seen else None,
                next_name=head.name if head is not None and seen else None,
            )
        )
    return tuple(found)


def _permit(one: Held, scope: Sequence[str] | None) -> PermitView:
    partition = None if one.partition == NO_PARTITION else one.partition
    if scope is not None and one.queue not in scope:
        return PermitView(job_id=None, taken_at=one.taken_at, partition=partition)
    return PermitView(
        job_id=one.job_id,
        taken_at=one.taken_at,
        partition=partition,
        name=one.name,
        queue=one.queue,
        worker_id=one.worker_id,
    )
