"""How long things are kept, and the bounded work that keeps it so.

``cleanup`` moves finished jobs to ``deleted`` when they are old enough, ``purge`` removes what was deleted for good;
never an active job. Workers do both about once a minute, under a lock, by ``maintain``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from sloppyjobs.domain import options
from sloppyjobs.domain.states import Status
from sloppyjobs.errors import InvalidOption
from sloppyjobs.internals import internals
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.operators import Command, Moved

if TYPE_CHECKING:
    from sloppyjobs.jobs import Jobs

Duration = float | timedelta

DAY = 86_400.0
AGES: Mapping[str, Duration | None] = {"succeeded": 7 * DAY, "cancelled": 30 * DAY, "dead": 90 * DAY}
"""After how many seconds jobs of each finished status are deleted, unless something else is asked for."""
PURGE_AFTER = DAY
MOST = 10_000
"""Jobs that one call moves at most."""
STATS_KEPT = 35 * DAY
MINUTES_KEPT = 2 * DAY
"""Counters older than this are kept by the hour, and no longer by the minute."""
CAUSES_KEPT = 90 * DAY
"""How long past deaths, and retries of their causes, are remembered."""
DEPLOYS_KEPT = 90 * DAY
"""How long deploys are remembered; the latest is always."""
BATCHES_KEPT = 90 * DAY
"""How long batches that have ended are remembered."""
GONE_AFTER = DAY
"""When the row of a worker that was not heard of, or of a lock that ran out, is removed."""

LOCK = "sloppy.jobs.maintenance"
"""The lock under which workers take turns at maintenance."""
LOCK_TTL = 120.0
ACTOR = "sloppyjobs"
"""Who deletes jobs where nobody asked for it."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long an application keeps its finished jobs, in seconds or as a ``timedelta``; None keeps for ever.

    ``purge_after`` counts from the deletion. ``archive`` moves jobs to the archive where a purge would remove them.
    ``batch`` is how many jobs are moved at a time. ``seconds`` bounds one round of a worker's maintenance. Set it as
    ``jobs.retention``.
    """

    succeeded: Duration | None = 7 * DAY
    cancelled: Duration | None = 30 * DAY
    dead: Duration | None = 90 * DAY
    purge_after: Duration | None = PURGE_AFTER
    archive: bool = False
    batch: int = 1000
    seconds: float = 10.0

    def __post_init__(self) -> None:
        for name in ("succeeded", "cancelled", "dead", "purge_after"):
            _age(name, getattr(self, name))
        options.one_of("archive", self.archive, (True, False))
        options.whole("batch", self.batch, least=1, most=MOST)
        options.seconds("seconds", self.seconds)

    @property
    def ages(self) -> dict[str, Duration | None]:
        """The age at which jobs of each finished status are deleted."""
        return {name: getattr(self, name) for name in AGES}


class CleanupResult(msgspec.Struct, frozen=True):
    """How many jobs of each status were deleted; ``more`` says that not everything was examined yet."""

    deleted: Mapping[str, int]
    more: bool = False

    @property
    def total(self) -> int:
        """How many jobs were deleted in all."""
        return sum(self.deleted.values())


class PurgeResult(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows of each kind were removed; ``more`` says that not everything was examined yet."""

    jobs: int = 0
    archived: bool = False
    """Whether the jobs were moved to the archive."""
    stats: int = 0
    stats_rolled_up: int = 0
    workers: int = 0
    locks: int = 0
    audit: int = 0
    more: bool = False

    @property
    def total(self) -> int:
        """How many rows were removed in all."""
        return self.jobs + self.stats + self.stats_rolled_up + self.workers + self.locks + self.audit


class Maintenance(msgspec.Struct, frozen=True):
    """What one round of a worker's maintenance did."""

    deleted: int
    purged: int
    more: bool


def cleanup(
    storage: Store,
    limit: int = 1000,
    ages: Mapping[str, Duration | None] | None = None,
    command: Command | None = None,
) -> CleanupResult:
    """Delete up to ``limit`` finished jobs that are older than their status' age; see ``Admin.cleanup``."""
    limit = options.whole("limit", limit, least=1, most=MOST)
    wanted = _ages(ages)
    command = Command("cleanup", ACTOR) if command is None else command
    now = storage.clock.now()
    deleted: dict[str, int] = {}
    more = False
    for name, age in wanted.items():
        if age is None:
            continue
        left = limit - sum(deleted.values())
        if left == 0:
            more = True
            break
        moved = storage.retention.soft_delete(Status(name), now - timedelta(seconds=age), left, command)
        deleted[name] = moved.count
        more = more or moved.more
    return CleanupResult({name: deleted.get(name, 0) for name in wanted}, more)


def purge(
    storage: Store,
    limit: int = 1000,
    older_than: Duration | None = PURGE_AFTER,
    archive: bool = False,
    audit_older_than: Duration | None = None,
) -> PurgeResult:
    """Remove up to ``limit`` deleted jobs for good, and other rows that nobody reads; see ``Admin.purge``."""
    limit = options.whole("limit", limit, least=1, most=MOST)
    age = _age("older_than", older_than)
    audit_age = _age("audit_older_than", audit_older_than)
    archive = options.one_of("archive", archive, (True, False))
    now = storage.clock.now()

    def ago(seconds: float) -> timedelta:
        return timedelta(seconds=seconds)

    moved = Moved() if age is None else storage.retention.purge(now - ago(age), limit, archive=archive)
    stats = storage.cleanup.remove_stats(now - ago(STATS_KEPT), limit)
    rolled_up = storage.cleanup.roll_up_stats(now - ago(MINUTES_KEPT), limit)
    audit = 0 if audit_age is None else storage.cleanup.remove_audit(now - ago(audit_age), limit)
    storage.throttles.remove(now - ago(GONE_AFTER))
    storage.form_keys.remove(now - ago(GONE_AFTER), limit)
    storage.cleanup.remove_deaths(now - ago(CAUSES_KEPT), limit)
    storage.cleanup.remove_retry_runs(now - ago(CAUSES_KEPT), limit)
    storage.alerts.remove(now - ago(CAUSES_KEPT), limit)
    storage.deploys.remove(now - ago(DEPLOYS_KEPT), limit)
    storage.cleanup.remove_keys(now - ago(GONE_AFTER), limit)
    storage.cleanup.release_waiting(limit)
    storage.ageing.raise_priorities(limit)
    storage.workflows.record_ended(limit)
    storage.workflows.remove_empty(limit)
    storage.cleanup.mend_batches(limit)
    storage.cleanup.remove_batches(now - ago(BATCHES_KEPT), limit)
    return PurgeResult(
        jobs=moved.count,
        archived=archive,
        stats=stats,
        stats_rolled_up=rolled_up,
        workers=storage.cleanup.remove_workers(now - ago(GONE_AFTER), limit),
        locks=storage.cleanup.remove_locks(now - ago(GONE_AFTER), limit),
        audit=audit,
        more=moved.more or limit in (stats, rolled_up, audit),
    )


def maintain(jobs: Jobs, owner: str | None = None) -> Maintenance | None:
    """One round of maintenance by ``jobs.retention``; None when somebody else is at it.

    Batch after batch until there is no more or the policy's ``seconds`` have passed: as much as the load asks
    for, and never for long. Safe to call from anywhere at any time.
    """
    owner = internals(jobs).ids.new("maintenance") if owner is None else options.text("owner", owner)
    storage, policy = jobs.storage, jobs.retention
    if not storage.locks.acquire(LOCK, owner, LOCK_TTL):
        return None
    try:
        return _rounds(storage, policy)
    finally:
        storage.locks.release(LOCK, owner)


def _rounds(storage: Store, policy: Retention) -> Maintenance:
    deadline = time.monotonic() + policy.seconds
    deleted = purged = 0
    more = True
    while more:
        cleaned = cleanup(storage, policy.batch, policy.ages)
        removed = purge(storage, policy.batch, policy.purge_after, policy.archive)
        deleted, purged = deleted + cleaned.total, purged + removed.jobs
        more = cleaned.more or removed.more
        if time.monotonic() >= deadline:
            break
        if more:
            # Let other writers in between two batches.
            time.sleep(0.01)
    return Maintenance(deleted, purged, more)


def _ages(given: Mapping[str, Duration | None] | None) -> dict[str, float | None]:
    if given is not None and not isinstance(given, Mapping):
        raise options.refuse("ages", given, "must be a mapping, such as {'succeeded': timedelta(days=7)}")
    unknown = [name for name in given or {} if str(name) not in AGES]
    if unknown:
        reason = f"only finished jobs are deleted; accepted are {', '.join(AGES)}"
        raise InvalidOption(f"ages: {', '.join(map(repr, unknown))}: {reason}", field="ages", reason=reason)
    return {name: _age(f"ages[{name!r}]", age) for name, age in {**AGES, **(given or {})}.items()}


def _age(option: str, value: Duration | None) -> float | None:
    return None if value is None else options.seconds(option, value)
