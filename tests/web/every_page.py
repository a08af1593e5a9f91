"""Every page, once: tests and pictures walk over this list. A new page is a line here, and is tested everywhere."""

from __future__ import annotations

from collections.abc import Callable
from string import Formatter

import scene

from sloppyjobs import Jobs

PAGES = {
    "overview": "/",
    "overview-7d": "/?range=7d",
    "jobs": "/jobs",
    "jobs-dead": "/jobs?status=dead",
    "jobs-scheduled": "/jobs?status=scheduled",
    "job-dead": "/jobs/{dead}",
    "job-running": "/jobs/{running}",
    "job-scheduled": "/jobs/{scheduled}",
    "job-steps": "/jobs/{stepped}",
    "job-asleep": "/jobs/{asleep}",
    "job-type": "/job-types/send-email?range=24h",
    "dead": "/dead",
    "cause": "/dead/{cause}",
    "queues": "/queues",
    "queue": "/queues/emails",
    "queue-runs": "/queue-runs/emails",
    "queue-paused": "/queues/search",
    "recurring": "/recurring",
    "schedule": "/recurring/nightly-rollup",
    "schedule-new": "/new-schedule",
    "schedule-edit": "/recurring/nightly-rollup/edit",
    "workflows": "/workflows",
    "workflow": "/workflows/{workflow}",
    "workers": "/workers",
    "worker": "/workers/{worker}",
    "limits": "/limits",
    "limit": "/limits/payments-api",
    "locks": "/locks",
    "audit": "/audit",
    "alerts": "/alerts",
    "encryption": "/encryption",
    "batches": "/batches",
    "batch": "/batches/{batch}",
    "archive": "/archive",
    "archived": "/archive/{archived}",
    "find": "/find?q=e",
}
"""Pages as they are opened."""

CONFIRMS = {
    "confirm-job": "/jobs/{dead}/delete",
    "confirm-bulk": "/dead/retry?cause=1",
    "confirm-schedule": "/recurring/nightly-rollup/trigger",
    "confirm-workflow": "/workflows/{workflow}/cancel",
    "confirm-batch": "/batches/{batch}/cancel",
    "confirm-worker": "/workers/{worker}/stop",
    "confirm-limit": "/limits/payments-api/delete",
    "confirm-restore": "/archive/{archived}/restore",
}
"""Pages that ask before something is done."""

EVERY_PAGE = {**PAGES, **CONFIRMS}

_FOUND: dict[str, Callable[[Jobs], str]] = {
    "dead": lambda jobs: jobs.admin.list_jobs("dead", name="send-email")[0].id,
    "running": lambda jobs: jobs.admin.list_jobs("processing")[0].id,
    "scheduled": lambda jobs: jobs.admin.list_jobs("scheduled")[0].id,
    "cause": lambda jobs: jobs.admin.dead_groups()[0].cause,
    "archived": lambda jobs: jobs.admin.search_archive()[0].id,
    "batch": lambda jobs: jobs.admin.list_batches(status="failed")[0].id,
    "workflow": scene.workflow,
    "worker": scene.worker,
    "stepped": lambda jobs: scene.suspend(jobs)[0],
    "asleep": lambda jobs: jobs.admin.list_jobs("waiting", name="refund-order", order="created_at")[-1].id,
}
"""What the addresses are filled with. What is no part of the day is made when it is first asked for."""

IDS = tuple(_FOUND)


class Addresses:
    """Fills the addresses of pages with the ids of one scene."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._known: dict[str, str] = {}

    def fill(self, path: str) -> str:
        """The address with ids for names."""
        wanted = [name for _, name, _, _ in Formatter().parse(path) if name]
        return path.format(**{name: self.id(name) for name in wanted})

    def id(self, name: str) -> str:
        """The id that has this name."""
        if name == "asleep":
            self.id("stepped")
        if name not in self._known:
            self._known[name] = _FOUND[name](self._jobs)
        return self._known[name]
