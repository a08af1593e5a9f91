"""Commands on one job, each with its entry in the audit trail."""

from __future__ import annotations

from sloppyjobs.admin.actions import ACTIONS, decision
from sloppyjobs.admin.filters import command_given
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.storage.ports import Store
from sloppyjobs.views import JobView


class JobCommands:
    """The part of ``jobs.admin`` that moves one job."""

    _storage: Store
    _definitions: Definitions

    def get_job(self, id: str) -> JobView:
        """The job, as the admin shows it."""
        raise NotImplementedError

    def retry(self, id: str, *, actor: str | None = None, reason: str | None = None) -> JobView:
        """Queue a dead job with its full number of attempts again; the numbering continues."""
        return self._command("retry", id, actor, reason)

    def cancel(self, id: str, *, actor: str | None = None, reason: str | None = None) -> JobView:
        """Cancel a job that has not finished; a running handler is told, and its settlement will be stale."""
        return self._command("cancel", id, actor, reason)

    def delete(self, id: str, *, actor: str | None = None, reason: str | None = None) -> JobView:
        """Put a finished or queued job into ``deleted``; a purge removes it for good later."""
        return self._command("delete", id, actor, reason)

    def run_now(self, id: str, *, actor: str | None = None, reason: str | None = None) -> JobView:
        """Queue a scheduled, retrying or paused job at once; one that sleeps goes on, and its sleep is over."""
        return self._command("run_now", id, actor, reason)

    def pause(self, id: str, *, actor: str | None = None, reason: str | None = None) -> JobView:
        """Hold a scheduled, queued or retrying job back until it is resumed."""
        return self._command("pause", id, actor, reason)

    def resume(self, id: str, *, actor: str | None = None, reason: str | None = None) -> JobView:
        """Put a paused job back to where it was paused from."""
        return self._command("resume", id, actor, reason)

    def _command(self, action: str, id: str, actor: str | None, reason: str | None) -> JobView:
        decide = decision(ACTIONS[action], self._definitions)
        self._storage.audit.command_job(id, decide, command_given(action, actor, reason))
        return self.get_job(id)
