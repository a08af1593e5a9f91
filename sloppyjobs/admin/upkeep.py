"""Cleanup and purge by an operator, with a trail."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from sloppyjobs import retention
from sloppyjobs.admin.filters import command_given
from sloppyjobs.retention import CleanupResult, PurgeResult
from sloppyjobs.storage.ports import Store

Duration = float | timedelta


class UpkeepAdmin:
    """Bounded retention; workers do the same by ``jobs.retention``, without an entry in the audit trail."""

    _storage: Store

    def cleanup(
        self,
        limit: int = 1000,
        ages: Mapping[str, Duration | None] | None = None,
        *,
        actor: str | None = None,
        reason: str | None = None,
    ) -> CleanupResult:
        """Put up to ``limit`` (1 to 10,000) old finished jobs into ``deleted``; never an active one.

        ``ages`` says by status, in seconds or as a ``timedelta``, how long after its end a job is old: by default
        7 days for ``succeeded``, 30 for ``cancelled``, 90 for ``dead``; None keeps a status for ever.
        """
        command = command_given("cleanup", actor, reason)
        done = retention.cleanup(self._storage, limit, ages, command)
        if done.total:
            self._storage.audit.record(command, "jobs", "cleanup", done.deleted)
        return done

    def repair(self, *, actor: str | None = None, reason: str | None = None) -> Mapping[str, int]:
        """Recompute what blocks jobs, now: how many went on or were mended, by ``waiting``, ``batches`` and ``keys``.

        Workers do the same from time to time. It concerns what somebody has changed by hand. Up to 10,000 rows of each
        kind are looked at.
        """
        self._storage.ensure_schema()
        cleanup, now = self._storage.cleanup, self._storage.clock.now()
        done = {
            "waiting": cleanup.release_waiting(retention.MOST),
            "batches": cleanup.mend_batches(retention.MOST),
            "keys": cleanup.remove_keys(now, retention.MOST),
        }
        if any(done.values()):
            self._storage.audit.record(command_given("repair", actor, reason), "jobs", "repair", done)
        return done

    def purge(
        self,
        limit: int = 1000,
        older_than: Duration = retention.PURGE_AFTER,
        archive: bool = False,
        *,
        audit_older_than: Duration | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> PurgeResult:
        """Remove up to ``limit`` (1 to 10,000) jobs for good that were deleted ``older_than`` seconds ago.

        Their attempts, events and logs go with them; ``archive`` moves them to the archive, history included.
        Removed too, up to ``limit`` of each: counters after 35 days (those of more than 2 days ago are added up
        by the hour), workers, expired locks and keys of forms after a day, deploys but for the latest after 90 days,
        and audit entries ``audit_older_than``.
        """
        command = command_given("purge", actor, reason)
        done = retention.purge(self._storage, limit, older_than, archive, audit_older_than)
        if done.total:
            detail = {"jobs": done.jobs, "archived": archive, "audit": done.audit}
            self._storage.audit.record(command, "jobs", "purge", detail)
        return done
