"""Durable background jobs, kept in the database the application already has.

Names are loaded on first use, so that importing the package costs next to nothing. Type checkers read ``__init__.pyi``,
which ``python tests/typing/public_stub.py`` writes from the table below.
"""

from importlib import import_module as _import_module

__version__ = "0.1.0"

_NAMES = {
    "admin": "Admin",
    "domain.batches": "BatchStatus",
    "domain.dependencies": "After FlowJob Result",
    "domain.limits": "Limit",
    "domain.model": "Attempt Claim Event Job",
    "domain.redaction": "Redactor",
    "domain.retry": "NO_RETRY Retry",
    "domain.states": "AttemptStatus Status",
    "domain.workflows": "WorkflowStatus",
    "encryption": "Keyring",
    "enqueue.batches": "Batch",
    "enqueue.definitions": "Cancel Definition RetryLater Snooze",
    "enqueue.option_types": "EnqueueOptions",
    "errors": "BatchClosed DecryptionFailed DriverMissing DuplicateJob Expired HandlerFailed InvalidOption"
    " InvalidPayload InvalidSchedule InvalidStep InvalidTransition InvalidWorkflow JobAborted JobsError JobTimeout"
    " KeyConflict LeaseExpired LockConflict PayloadNewer PermitNotHeld ReadTimeout SchemaMissing SchemaVersionMismatch"
    " SignalTimeout StaleLease StorageUnavailable Suspension UnknownAlert UnknownBatch UnknownJob UnknownLimit"
    " UnknownQueue"
    " UnknownSchedule UnknownWorker UnknownWorkflow UpcastFailed WaitTimeout",
    "jobs": "Jobs",
    "locks": "Locks",
    "logs": "JobFilter JsonFormatter TextFormatter",
    "retention": "Retention",
    "schedules.occurrences": "Recurring",
    "storage.clock": "FakeClock",
    "views": "Page",
    "worker": "AsyncContext Context Signal Worker",
    "workflow.flows": "Flow",
}
_HOME = {name: f"sloppyjobs.{module}" for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted([*_HOME, "storage"])  # noqa: PLE0605 - the names stand above, and only there


def __getattr__(name: str) -> object:
    if name == "storage":
        return _import_module("sloppyjobs.storage")
    if name not in _HOME:
        raise AttributeError(f"module 'sloppyjobs' has no attribute {name!r}")
    found = globals()[name] = getattr(_import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return list(__all__)
