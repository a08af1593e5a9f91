"""The OpenAPI document, made from the routes and from the types of what they answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from sloppyjobs.domain.deploys import NOTE_LENGTH, VERSION_LENGTH
from sloppyjobs.schedules.occurrences import Recurring
from sloppyjobs.schedules.timetable import Misfire
from sloppyjobs.views import (
    AlertRuleView,
    AlertView,
    ArchivedRow,
    ArchivedView,
    AttemptView,
    AuditEntry,
    BatchView,
    BulkResult,
    DeadGroup,
    DependenciesView,
    DeployView,
    EventView,
    Explanation,
    JobRow,
    JobTypeView,
    JobView,
    LimitDetails,
    LimitView,
    LockView,
    LogView,
    Overview,
    Page,
    QueueView,
    Stats,
    StepView,
    WorkerView,
    WorkflowGraphView,
    WorkflowJobView,
    WorkflowView,
)
from sloppyjobs.views.encryption import EncryptionView
from webui.api.commands import SignalAnswer
from webui.api.reads import ARCHIVE_OPTIONS, AUDIT_OPTIONS, BATCH_OPTIONS, LIST_OPTIONS, WORKFLOW_OPTIONS
from webui.policy import COMMANDS
from webui.routes import Route

_ARGUMENT = re.compile(r"<(?:[^:>]*:)?(\w+)>")
_ANSWERS: Mapping[str, Any] = {
    "api_overview": Overview,
    "api_jobs": Page[JobRow],
    "api_job": JobView,
    "api_attempts": Page[AttemptView],
    "api_events": Page[EventView],
    "api_logs": Page[LogView],
    "api_explain": Explanation,
    "api_dependencies": DependenciesView,
    "api_dead": tuple[DeadGroup, ...],
    "api_job_type": JobTypeView,
    "api_queues": Page[QueueView],
    "api_queue": QueueView,
    "api_recurring": Page[Recurring],
    "api_schedule": Recurring,
    "api_schedule_create": Recurring,
    "api_schedule_edit": Recurring,
    "api_alerts": Page[AlertView],
    "api_alert_rules": tuple[AlertRuleView, ...],
    "api_alert_test": AlertView,
    "api_alert_mute": AlertRuleView,
    "api_alert_unmute": AlertRuleView,
    "api_encryption": EncryptionView,
    "api_limits": Page[LimitView],
    "api_limit": LimitDetails,
    "api_limit_set": LimitView,
    "api_limit_delete": LimitView,
    "api_permit_release": JobView,
    "api_workflows": Page[WorkflowView],
    "api_workflow": WorkflowView,
    "api_workflow_jobs": Page[WorkflowJobView],
    "api_workflow_graph": WorkflowGraphView,
    "api_workflow_act": BulkResult,
    "api_archive": Page[ArchivedRow],
    "api_archived": ArchivedView,
    "api_restore": JobView,
    "api_patch": JobView,
    "api_steps": Page[StepView],
    "api_signal": SignalAnswer,
    "api_batches": Page[BatchView],
    "api_batch": BatchView,
    "api_batch_act": BatchView,
    "api_workers": Page[WorkerView],
    "api_worker": WorkerView,
    "api_worker_act": WorkerView,
    "api_deploys": Page[DeployView],
    "api_deploy_mark": DeployView,
    "api_locks": Page[LockView],
    "api_audit": Page[AuditEntry],
    "api_stats": Stats,
    "api_job_act": JobView,
    "api_bulk": BulkResult,
    "api_queue_act": QueueView,
    "api_queue_age": QueueView,
}
_QUERY: Mapping[str, Sequence[str]] = {
    "api_jobs": ("status", *LIST_OPTIONS, "cursor", "page_size"),
    "api_dead": ("limit",),
    "api_audit": (*AUDIT_OPTIONS, "cursor", "page_size"),
    "api_alerts": ("rule", "cursor", "page_size"),
    "api_archive": (*ARCHIVE_OPTIONS, "cursor", "page_size"),
    "api_workflows": ("status", *WORKFLOW_OPTIONS, "cursor", "page_size"),
    "api_workflow_jobs": ("status", "cursor", "page_size"),
    "api_batches": (*BATCH_OPTIONS, "cursor", "page_size"),
    "api_job_type": ("minutes",),
    "api_stats": ("minutes", "queue", "name"),
    **dict.fromkeys(
        (
            "api_attempts",
            "api_events",
            "api_logs",
            "api_steps",
            "api_queues",
            "api_recurring",
            "api_workers",
            "api_deploys",
            "api_locks",
            "api_limits",
        ),
        ("cursor", "page_size"),
    ),
}
_SCHEDULE: Mapping[str, Any] = {
    "payload": {},
    "cron": {"type": ["string", "null"]},
    "every": {"type": ["number", "null"], "minimum": 1},
    "at": {"type": ["string", "null"], "format": "date-time"},
    "timezone": {"type": "string", "default": "UTC"},
    "misfire": {"type": "string", "enum": list(Misfire)},
    "catch_up_limit": {"type": "integer", "minimum": 1, "maximum": 1000},
    "queue": {"type": ["string", "null"]},
    "priority": {"type": ["integer", "null"]},
}
_BODY: Mapping[str, Mapping[str, Any]] = {
    "api_bulk": {
        "filter": {"type": "object"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 10_000},
        "dry_run": {"type": "boolean"},
        "cursor": {"type": "string"},
    },
    "api_schedule_create": {
        "name": {"type": "string"},
        "job_name": {"type": "string"},
        **_SCHEDULE,
        "paused": {"type": "boolean"},
    },
    "api_schedule_edit": _SCHEDULE,
    "api_signal": {"name": {"type": "string"}, "payload": {}},
    "api_patch": {"merge_patch": {"type": "object"}},
    "api_limit_set": {
        "concurrency": {"type": ["integer", "null"], "minimum": 1},
        "rate": {"type": ["integer", "null"], "minimum": 1},
        "per": {"type": ["number", "null"], "exclusiveMinimum": 0},
        "create": {"type": "boolean"},
    },
    "api_deploy_mark": {
        "version": {"type": "string", "minLength": 1, "maxLength": VERSION_LENGTH},
        "note": {"type": ["string", "null"], "maxLength": NOTE_LENGTH},
    },
    "api_queue_act": {"until": {"type": "string", "format": "date-time"}},
    "api_alert_mute": {"until": {"type": "string", "format": "date-time"}},
    "api_queue_age": {
        "every": {"type": ["number", "null"], "minimum": 1},
        "most": {"type": "integer", "minimum": 1, "default": 10},
    },
}
_WHOLE = ("page_size", "limit", "minutes")
_COMMANDS: Mapping[str, Sequence[str]] = {
    "api_job_act": COMMANDS,
    "api_bulk": COMMANDS,
    "api_queue_act": ("pause", "resume"),
    "api_worker_act": ("quiet", "resume", "stop"),
    "api_workflow_act": ("cancel", "retry"),
    "api_batch_act": ("seal", "cancel", "retry"),
    "api_schedule_act": ("pause", "resume", "trigger", "delete"),
}
_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("code", "title", "message")},
            "required": ["code", "title", "message"],
        }
    },
    "required": ["error"],
}


def _anything(_kind: type) -> dict[str, Any]:
    """A preview holds any JSON."""
    return {"description": "any JSON"}


@lru_cache(maxsize=1)
def _schemas() -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema for each answer, and the components that they refer to."""
    made, components = msgspec.json.schema_components(
        list(_ANSWERS.values()), schema_hook=_anything, ref_template="#/components/schemas/{name}"
    )
    return dict(zip(_ANSWERS, made, strict=True)), components


def document(routes: Sequence[Route], server: str) -> dict[str, Any]:
    """The document for a blueprint mounted at ``server``."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if route.api and not route.leads_nowhere and route.endpoint not in ("openapi", "metrics"):
            path = _ARGUMENT.sub(r"{\1}", route.rule.removeprefix("/api/v1"))
            paths.setdefault(path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "sloppyjobs admin", "version": "1", "description": "Durable background jobs, operated."},
        "servers": [{"url": server}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": {**_schemas()[1], "Error": _ERROR},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    answer = _schemas()[0].get(route.endpoint, {})
    operation: dict[str, Any] = {
        "operationId": route.endpoint.removeprefix("api_"),
        "summary": (route.view.__doc__ or "").strip().split("\n")[0],
        "x-permission": " and ".join((route.action, *route.also)),
        "parameters": [*_in_path(route), *map(_in_query, _QUERY.get(route.endpoint, ()))],
        "responses": {
            "200": {"description": "Done", "content": {"application/json": {"schema": answer}}},
            "default": {
                "description": "Refused",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    }
    if route.method in ("POST", "PATCH"):
        properties = {"reason": {"type": "string"}, **_BODY.get(route.endpoint, {})}
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return operation


def _in_path(route: Route) -> list[dict[str, Any]]:
    found = []
    for name in _ARGUMENT.findall(route.rule):
        schema: dict[str, Any] = {"type": "string"}
        if name == "command":
            schema["enum"] = list(_COMMANDS[route.endpoint])
        found.append({"name": name, "in": "path", "required": True, "schema": schema})
    return found


def _in_query(name: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": "integer" if name in _WHOLE else "string"}}
