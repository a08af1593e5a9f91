"""Durable background jobs, kept in the database the application already has.

Names are loaded on first use, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sloppyjobs import storage as storage
    from sloppyjobs.admin import Admin
    from sloppyjobs.definitions import Cancel, Definition, RetryLater, Snooze
    from sloppyjobs.errors import (
        DriverMissing,
        DuplicateJob,
        HandlerFailed,
        InvalidOption,
        InvalidPayload,
        InvalidSchedule,
        InvalidTransition,
        JobAborted,
        JobsError,
        JobTimeout,
        LeaseExpired,
        LockConflict,
        ReadTimeout,
        SchemaMissing,
        SchemaVersionMismatch,
        StaleLease,
        StorageUnavailable,
        UnknownJob,
        UnknownQueue,
        UnknownSchedule,
        WaitTimeout,
    )
    from sloppyjobs.jobs import Jobs
    from sloppyjobs.locks import Locks
    from sloppyjobs.logs import JobFilter, JsonFormatter, TextFormatter
    from sloppyjobs.model import Attempt, Claim, Event, Job
    from sloppyjobs.occurrences import Recurring
    from sloppyjobs.retention import Retention
    from sloppyjobs.retry import NO_RETRY, Retry
    from sloppyjobs.states import AttemptStatus, Status
    from sloppyjobs.storage.clock import FakeClock
    from sloppyjobs.views import Page
    from sloppyjobs.worker import Context, Signal, Worker

__version__ = "0.1.0"

_NAMES = {
    "sloppyjobs.admin": ("Admin",),
    "sloppyjobs.definitions": ("Cancel", "Definition", "RetryLater", "Snooze"),
    "sloppyjobs.errors": (
        "DriverMissing",
        "DuplicateJob",
        "HandlerFailed",
        "InvalidOption",
        "InvalidPayload",
        "InvalidSchedule",
        "InvalidTransition",
        "JobAborted",
        "JobsError",
        "JobTimeout",
        "LeaseExpired",
        "LockConflict",
        "ReadTimeout",
        "SchemaMissing",
        "SchemaVersionMismatch",
        "StaleLease",
        "StorageUnavailable",
        "UnknownJob",
        "UnknownQueue",
        "UnknownSchedule",
        "WaitTimeout",
    ),
    "sloppyjobs.jobs": ("Jobs",),
    "sloppyjobs.locks": ("Locks",),
    "sloppyjobs.logs": ("JobFilter", "JsonFormatter", "TextFormatter"),
    "sloppyjobs.model": ("Attempt", "Claim", "Event", "Job"),
    "sloppyjobs.occurrences": ("Recurring",),
    "sloppyjobs.retention": ("Retention",),
    "sloppyjobs.retry": ("NO_RETRY", "Retry"),
    "sloppyjobs.states": ("AttemptStatus", "Status"),
    "sloppyjobs.storage.clock": ("FakeClock",),
    "sloppyjobs.views": ("Page",),
    "sloppyjobs.worker": ("Context", "Signal", "Worker"),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "NO_RETRY",
    "Admin",
    "Attempt",
    "AttemptStatus",
    "Cancel",
    "Claim",
    "Context",
    "Definition",
    "DriverMissing",
    "DuplicateJob",
    "Event",
    "FakeClock",
    "HandlerFailed",
    "InvalidOption",
    "InvalidPayload",
    "InvalidSchedule",
    "InvalidTransition",
    "Job",
    "JobAborted",
    "JobFilter",
    "JobTimeout",
    "Jobs",
    "JobsError",
    "JsonFormatter",
    "LeaseExpired",
    "LockConflict",
    "Locks",
    "Page",
    "ReadTimeout",
    "Recurring",
    "Retention",
    "Retry",
    "RetryLater",
    "SchemaMissing",
    "SchemaVersionMismatch",
    "Signal",
    "Snooze",
    "StaleLease",
    "Status",
    "StorageUnavailable",
    "TextFormatter",
    "UnknownJob",
    "UnknownQueue",
    "UnknownSchedule",
    "WaitTimeout",
    "Worker",
    "storage",
]


def __getattr__(name: str) -> Any:
    if name == "storage":
        return import_module("sloppyjobs.storage")
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'sloppyjobs' has no attribute {name!r}") from None
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
