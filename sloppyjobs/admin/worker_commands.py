"""Workers one by one: what each runs, and what operators want of it."""

from __future__ import annotations

from collections.abc import Iterable

from sloppyjobs import errors
from sloppyjobs.admin.filters import command_given, scope_of
from sloppyjobs.admin.workers import worker_views
from sloppyjobs.domain import options
from sloppyjobs.ids import parts_of_short
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.reads import WorkerRow
from sloppyjobs.views import WorkerView

MOST_JOBS = 50
"""Running jobs that are shown of one worker."""


class WorkerAdmin:
    """The part of ``jobs.admin`` that concerns one worker."""

    _storage: Store

    def get_worker(self, id: str, *, queues: Iterable[str] | None = None) -> WorkerView:
        """One worker with up to 50 of the jobs that it runs; ``UnknownWorker`` where there is none.

        With ``queues``, as who sees only these queues may see it. A shortened id is understood.
        """
        shown = worker_views(self._storage, [self._worker_row(id)], scope_of(queues), MOST_JOBS)
        if not shown:
            raise errors.UnknownWorker(f"no worker has the id {id}")
        return shown[0]

    def quiet_worker(self, id: str, *, actor: str | None = None, reason: str | None = None) -> WorkerView:
        """Let a worker take no new jobs. What it runs finishes, and its process stays until it is resumed.

        It learns of that by its next heartbeat. One that has stopped or is stopping raises ``InvalidTransition``.
        """
        return self._want(id, "quiet", "quiet_worker", actor, reason)

    def resume_worker(self, id: str, *, actor: str | None = None, reason: str | None = None) -> WorkerView:
        """Let a quiet worker take jobs again, from its next heartbeat on."""
        return self._want(id, None, "resume_worker", actor, reason)

    def stop_worker(self, id: str, *, actor: str | None = None, reason: str | None = None) -> WorkerView:
        """Let a worker drain as by SIGTERM, from its next heartbeat on, and then end.

        What does not finish within its ``shutdown_timeout`` goes back to its queue, at no cost. A supervisor does not
        start it again; systemd and the like do as they are told.
        """
        return self._want(id, "stop", "stop_worker", actor, reason)

    def _want(self, id: str, wanted: str | None, action: str, actor: str | None, reason: str | None) -> WorkerView:
        worker_id = self._worker_row(id).id
        self._storage.workers.want(worker_id, wanted, command_given(action, actor, reason))
        return self.get_worker(worker_id)

    def _worker_row(self, id: str) -> WorkerRow:
        given = options.text("id", id)
        found = self._storage.history.worker_row(given)
        parts = parts_of_short(given) if found is None else None
        if parts is not None:
            rows = self._storage.history.recent_workers()
            alike = [row for row in rows if row.id.startswith(parts[0]) and row.id.endswith(parts[1])]
            found = alike[0] if len(alike) == 1 else None
        if found is None:
            raise errors.UnknownWorker(f"no worker has the id {given}")
        return found
