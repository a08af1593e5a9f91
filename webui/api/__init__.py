"""``/api/v1``: the admin object as JSON, for bearer tokens only, described by a document next to it."""

from __future__ import annotations

from flask import Response, url_for

from webui.api import commands, deploys, limits, openapi, reads, schedules
from webui.api.answers import answer
from webui.policy import COMMANDS
from webui.routes import ANY, SIGNED_IN, Route, View
from webui.ui import Ui
from webui.views.frame import nowhere

_JOB = "any(" + ", ".join(COMMANDS) + ")"
_QUEUE = "any(pause, resume)"
_WORKER = "any(quiet, resume, stop)"
_WORKFLOW = "any(cancel, retry)"
_BATCH = "any(seal, cancel, retry)"
_SCHEDULE = "any(pause, resume, trigger, delete)"


def _document(_ui: Ui) -> Response:
    """The OpenAPI document."""
    server = url_for(".openapi").removesuffix("/openapi.json")
    return answer(openapi.document(ROUTES, server))


def _read(rule: str, endpoint: str, view: object, action: str) -> Route:
    return Route(f"/api/v1{rule}", f"api_{endpoint}", view, action, api=True)  # type: ignore[arg-type]


def _write(rule: str, endpoint: str, view: object, action: str) -> Route:
    return Route(f"/api/v1{rule}", f"api_{endpoint}", view, action, "POST", api=True)  # type: ignore[arg-type]


def _of_workflow(what: str, view: View) -> Route:
    """What names the jobs of a workflow."""
    rule, endpoint = f"/api/v1/workflows/<path:id>/{what}", f"api_workflow_{what}"
    return Route(rule, endpoint, view, "workflow.view", api=True, also=("job.view",))


ROUTES = (
    Route("/api/v1/openapi.json", "openapi", _document, "overview.view", api=True),
    _read("/overview", "overview", reads.overview, "overview.view"),
    _read("/stats", "stats", reads.stats, "overview.view"),
    _read("/jobs", "jobs", reads.list_jobs, "job.view"),
    _read("/jobs/<path:id>", "job", reads.get_job, "job.view"),
    _read("/jobs/<path:id>/attempts", "attempts", reads.attempts, "job.view"),
    _read("/jobs/<path:id>/events", "events", reads.events, "job.view"),
    _read("/jobs/<path:id>/logs", "logs", reads.logs, "job.view"),
    _read("/jobs/<path:id>/explain", "explain", reads.explain, "job.view"),
    _read("/jobs/<path:id>/dependencies", "dependencies", reads.dependencies, "job.view"),
    _read("/jobs/<path:id>/steps", "steps", reads.steps, "job.view"),
    _write("/jobs/<path:id>/signal", "signal", commands.signal, "job.signal"),
    _write(f"/jobs/<path:id>/<{_JOB}:command>", "job_act", commands.job, "job.{command}"),
    Route("/api/v1/jobs/<path:id>/payload", "api_patch", commands.patch, "job.patch", "PATCH", api=True),
    _write(f"/bulk/<{_JOB}:command>", "bulk", commands.bulk, "bulk.{command}"),
    Route("/api/v1/dead", "api_dead", reads.dead_groups, "dead.view", api=True, also=("job.view",)),
    _read("/job-types/<path:name>", "job_type", reads.get_job_type, "job.view"),
    _read("/queues", "queues", reads.list_queues, "queue.view"),
    _read("/queues/<path:name>", "queue", reads.get_queue, "queue.view"),
    _write(f"/queues/<path:name>/<{_QUEUE}:command>", "queue_act", commands.queue, "queue.{command}"),
    _write("/queues/<path:name>/age", "queue_age", commands.age_queue, "queue.age"),
    _read("/recurring", "recurring", reads.list_recurring, "recurring.view"),
    _write("/recurring", "schedule_create", schedules.create, "recurring.create"),
    Route("/api/v1/recurring/<path:name>", "api_schedule_edit", schedules.edit, "recurring.edit", "PATCH", api=True),
    _read("/recurring/<path:name>", "schedule", reads.get_recurring, "recurring.view"),
    _write(f"/recurring/<path:name>/<{_SCHEDULE}:command>", "schedule_act", commands.recurring, "recurring.{command}"),
    _read("/alerts", "alerts", reads.list_alerts, "alert.view"),
    _read("/alert-rules", "alert_rules", reads.list_alert_rules, "alert.view"),
    _write("/alert-rules/<path:name>/test", "alert_test", commands.test_alert, "alert.test"),
    _write("/alert-rules/<path:name>/mute", "alert_mute", commands.mute_alert, "alert.mute"),
    _write("/alert-rules/<path:name>/unmute", "alert_unmute", commands.unmute_alert, "alert.unmute"),
    _read("/encryption", "encryption", reads.encryption, "encryption.view"),
    _read("/limits", "limits", limits.list_limits, "limit.view"),
    _read("/limits/<path:name>", "limit", limits.get_limit, "limit.view"),
    _write("/limits/<path:name>/set", "limit_set", limits.set_limit, "limit.set"),
    _write("/limits/<path:name>/delete", "limit_delete", limits.delete_limit, "limit.delete"),
    _write("/jobs/<path:id>/release_permit", "permit_release", limits.release, "limit.release"),
    _read("/workflows", "workflows", reads.list_workflows, "workflow.view"),
    _read("/workflows/<path:id>", "workflow", reads.get_workflow, "workflow.view"),
    _of_workflow("jobs", reads.workflow_jobs),
    _of_workflow("graph", reads.workflow_graph),
    _write(f"/workflows/<path:id>/<{_WORKFLOW}:command>", "workflow_act", commands.workflow, "workflow.{command}"),
    _read("/archive", "archive", reads.search_archive, "archive.view"),
    _read("/archive/<path:id>", "archived", reads.get_archived, "archive.view"),
    _write("/archive/<path:id>/restore", "restore", commands.restore, "archive.restore"),
    _read("/batches", "batches", reads.list_batches, "batch.view"),
    _read("/batches/<path:id>", "batch", reads.get_batch, "batch.view"),
    _write(f"/batches/<path:id>/<{_BATCH}:command>", "batch_act", commands.batch, "batch.{command}"),
    _read("/workers", "workers", reads.list_workers, "worker.view"),
    _read("/workers/<path:id>", "worker", reads.get_worker, "worker.view"),
    _write(f"/workers/<path:id>/<{_WORKER}:command>", "worker_act", commands.worker, "worker.{command}"),
    _read("/deploys", "deploys", deploys.list_deploys, "deploy.view"),
    _write("/deploys", "deploy_mark", deploys.mark_deploy, "deploy.mark"),
    _read("/locks", "locks", reads.list_locks, "lock.view"),
    _read("/audit", "audit", reads.audit, "audit.view"),
    Route("/api/v1/<path:anything>", "api_nowhere", nowhere, SIGNED_IN, ANY, api=True),
)
