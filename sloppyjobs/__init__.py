"""Durable background jobs, kept in the database the application already has.

Names are loaded on first use, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sloppyjobs import storage as storage
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
        UnknownJob,
        UnknownQueue,
        UnknownSchedule,
        WaitTimeout,
    )
    from sloppyjobs.jobs import Jobs
    from sloppyjobs.model import Attempt, Claim, Event, Job
    from sloppyjobs.retry import NO_RETRY, Retry
    from sloppyjobs.states import AttemptStatus, Status
    from sloppyjobs.storage.clock import FakeClock
    from sloppyjobs.worker import Context, Worker

__version__ = "0.1.0"

_HOME = {
    "storage": "sloppyjobs.storage",
    "Jobs": "sloppyjobs.jobs",
    "Worker": "sloppyjobs.worker",
    "Context": "sloppyjobs.worker",
    "FakeClock": "sloppyjobs.storage.clock",
    "Retry": "sloppyjobs.retry",
    "NO_RETRY": "sloppyjobs.retry",
    **dict.fromkeys(("Cancel", "Definition", "RetryLater", "Snooze"), "sloppyjobs.definitions"),
    **dict.fromkeys(("Attempt", "Claim", "Event", "Job"), "sloppyjobs.model"),
    **dict.fromkeys(("AttemptStatus", "Status"), "sloppyjobs.states"),
    **dict.fromkeys(
        (
            "DriverMissing",
            "DuplicateJob",
            "HandlerFailed",
            "InvalidOption",
            "InvalidPayload",
            "InvalidSchedule",
            "InvalidTransition",
            "JobAborted",
            "JobTimeout",
            "JobsError",
            "LeaseExpired",
            "LockConflict",
            "ReadTimeout",
            "ReadTimeout",
            "SchemaMissing",
            "SchemaVersionMismatch",
            "StaleLease",
            "UnknownJob",
            "UnknownQueue",
            "UnknownSchedule",
            "UnknownQueue",
            "UnknownSchedule",
            "WaitTimeout",
        ),
        "sloppyjobs.errors",
    ),
}

__all__ = [
    "NO_RETRY",
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
    "JobTimeout",
    "Jobs",
    "JobsError",
    "LeaseExpired",
    "LockConflict",
    "ReadTimeout",
    "Retry",
    "RetryLater",
    "SchemaMissing",
    "SchemaVersionMismatch",
    "Snooze",
    "StaleLease",
    "Status",
    "UnknownJob",
    "UnknownQueue",
    "UnknownSchedule",
    "WaitTimeout",
    "Worker",
    "storage",
]


def __getattr__(name: str) -> Any:
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'sloppyjobs' has no attribute {name!r}") from None
    module = import_module(home)
    return module if home.rpartition(".")[2] == name else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
