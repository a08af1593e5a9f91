"""Reads of the API: the admin's methods under their own names."""

from __future__ import annotations

from typing import Any

from flask import Response, request

from sloppyjobs import errors
from webui import hidden_details
from webui.api.answers import answer, whole
from webui.ui import Ui, visit
from webui.views.archive import visible as archived
from webui.views.job import visible
from webui.views.workers import visible as worker

AUDIT_OPTIONS = ("target", "actor", "action", "created_from", "created_to")
LIST_OPTIONS = (
    "queue",
    "name",
    "tag",
    "worker",
    "schedule",
    "batch",
    "workflow",
    "correlation_id",
    "idempotency_key",
    "business_key",
    "error_code",
    "created_from",
    "created_to",
    "run_from",
    "run_to",
    "order",
)
BATCH_OPTIONS = ("status", "name")
ARCHIVE_OPTIONS = ("id", "key", "business_key", "idempotency_key", "name", "queue", "created_from", "created_to")
WORKFLOW_OPTIONS = ("name", "correlation_id", "created_from", "created_to")
_PAGING = ("cursor", "page_size")


def paging(most: int = 500) -> dict[str, Any]:
    """The cursor and the size of a page."""
    return {"cursor": request.args.get("cursor"), "page_size": min(most, whole("page_size", 50))}


def overview(ui: Ui) -> Response:
    """The state of everything that the token sees."""
    return answer(hidden_details.overview(ui.snapshots.overview(visit().scope)))


def _options(known: tuple[str, ...], *besides: str) -> dict[str, Any]:
    """The options that were given; an unknown one would be about more than was asked for."""
    unknown = set(request.args) - {*known, *_PAGING, *besides}
    if unknown:
        raise errors.InvalidOption(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    return {name: request.args[name] for name in known if request.args.get(name)}


def list_jobs(ui: Ui) -> Response:
    """Jobs, newest first."""
    given = _options(LIST_OPTIONS, "status")
    status = request.args.getlist("status") or None
    return answer(ui.admin.list_jobs(status, **given, **paging(), scope=visit().scope))


def get_job(ui: Ui, id: str) -> Response:
    """One job."""
    return answer(visible(ui, id))


def attempts(ui: Ui, id: str) -> Response:
    """Its executions."""
    visible(ui, id)
    return answer(ui.admin.attempts(id, **paging()))


def events(ui: Ui, id: str) -> Response:
    """The edges of the state machine that it took."""
    visible(ui, id)
    return answer(ui.admin.events(id, **paging()))


def logs(ui: Ui, id: str) -> Response:
    """What its handler logged."""
    visible(ui, id)
    return answer(ui.admin.logs(id, **paging()))


def steps(ui: Ui, id: str) -> Response:
    """Its steps, sleeps and signals."""
    visible(ui, id)
    return answer(ui.admin.steps(id, **paging()))


def explain(ui: Ui, id: str) -> Response:
    """Why it is not running."""
    visible(ui, id)
    return answer(ui.admin.explain(id, scope=visit().scope))


def dependencies(ui: Ui, id: str) -> Response:
    """What it waits for, and what waits for it."""
    visible(ui, id)
    return answer(ui.admin.dependencies(id, scope=visit().scope, limit=whole("limit", 100)))


def dead_groups(ui: Ui) -> Response:
    """Dead jobs by cause."""
    return answer(ui.admin.dead_groups(limit=whole("limit", 50), queues=visit().scope))


def get_job_type(ui: Ui, name: str) -> Response:
    """One kind of job: its runs, its failures, its settings."""
    found = ui.admin.get_job_type(name, minutes=whole("minutes", 60), scope=visit().scope)
    return answer(hidden_details.job_type(found))


def list_queues(ui: Ui) -> Response:
    """Queues, by name."""
    return answer(ui.admin.list_queues(**paging(), scope=visit().scope))


def get_queue(ui: Ui, name: str) -> Response:
    """One queue."""
    if not visit().sees(name):
        raise errors.UnknownQueue(f"no queue is called {name!r}")
    return answer(ui.admin.get_queue(name))


def list_recurring(ui: Ui) -> Response:
    """Schedules, by name."""
    return answer(hidden_details.schedules(ui.admin.list_recurring(**paging(), queues=visit().scope)))


def get_recurring(ui: Ui, name: str) -> Response:
    """One schedule."""
    found = ui.admin.get_recurring(name)
    if not visit().sees(found.queue):
        raise errors.UnknownSchedule(name)
    return answer(hidden_details.schedule(found))


def list_alerts(ui: Ui) -> Response:
    """What was told to whom and when, latest first."""
    return answer(ui.admin.list_alerts(request.args.get("rule") or None, **paging()))


def list_alert_rules(ui: Ui) -> Response:
    """The rules for alerts, by name."""
    return answer(ui.admin.list_alert_rules())


def encryption(ui: Ui) -> Response:
    """The ids of the keys that are here, and how many of the stored texts need which."""
    return answer(ui.admin.encryption())


def list_workflows(ui: Ui) -> Response:
    """Workflows, newest first."""
    given = _options(WORKFLOW_OPTIONS, "status")
    status = request.args.getlist("status") or None
    return answer(ui.admin.list_workflows(status, **given, **paging(), scope=visit().scope))


def get_workflow(ui: Ui, id: str) -> Response:
    """One workflow: how it stands, and how many of its jobs have which status."""
    return answer(ui.admin.get_workflow(id, scope=visit().scope))


def workflow_jobs(ui: Ui, id: str) -> Response:
    """Its jobs in the order in which they were added, each with what it waits for."""
    status = request.args.get("status") or None
    return answer(ui.admin.workflow_jobs(id, status, **paging(), scope=visit().scope))


def workflow_graph(ui: Ui, id: str) -> Response:
    """Its first 2,000 jobs, and what leads to what."""
    return answer(ui.admin.workflow_graph(id, scope=visit().scope))


def search_archive(ui: Ui) -> Response:
    """Archived jobs, latest enqueued first."""
    return answer(ui.admin.search_archive(**_options(ARCHIVE_OPTIONS), **paging(), scope=visit().scope))


def get_archived(ui: Ui, id: str) -> Response:
    """One archived job, with its attempts, events and logs."""
    return answer(archived(ui, id))


def list_batches(ui: Ui) -> Response:
    """Batches, latest first."""
    return answer(ui.admin.list_batches(**_options(BATCH_OPTIONS), **paging(), scope=visit().scope))


def get_batch(ui: Ui, id: str) -> Response:
    """One batch, with its numbers and callbacks."""
    return answer(ui.admin.get_batch(id, scope=visit().scope))


def list_workers(ui: Ui) -> Response:
    """Worker processes."""
    return answer(hidden_details.workers(ui.admin.list_workers(**paging(), queues=visit().scope)))


def get_worker(ui: Ui, id: str) -> Response:
    """One worker process."""
    return answer(worker(ui, id))


def list_locks(ui: Ui) -> Response:
    """Named locks."""
    return answer(ui.admin.list_locks(**paging()))


def audit(ui: Ui) -> Response:
    """Who commanded what."""
    given: dict[str, Any] = {name: request.args.get(name) for name in AUDIT_OPTIONS}
    return answer(hidden_details.audit(ui.admin.audit(**given, **paging())))


def stats(ui: Ui) -> Response:
    """Settlements over time."""
    queue, name = request.args.get("queue"), request.args.get("name")
    return answer(ui.admin.stats(whole("minutes", 60), queue, name, queues=visit().scope))
