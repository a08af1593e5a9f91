"""Every error the library raises, each with the stable code that is also stored with a failed attempt.

Pure: no I/O, no clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from sloppyjobs.domain.states import Status

PREFIX = "SLOPPY_E_JOBS_"


class JobsError(Exception):
    """The root of all errors of the library. ``code`` is stable across releases; the text is for people."""

    code: ClassVar[str] = PREFIX + "ERROR"


class Refused:
    """What an error refuses, for programs: ``field`` names it, ``reason`` says what is wrong with it or what works.

    Both are None where the error is not about one value. The text of the error says the same and more, for people.
    """

    def __init__(self, *text: object, field: str | None = None, reason: str | None = None) -> None:
        super().__init__(*text)
        self.field = field
        self.reason = reason


class UnknownJob(JobsError):
    """No definition has this name, or no job has this id."""

    code = PREFIX + "UNKNOWN_JOB"


class UnknownSchedule(UnknownJob):
    """No schedule has this name."""


class UnknownJobType(UnknownJob):
    """Nobody knows a job of this name, or none that can be seen."""


class UnknownCause(UnknownJob):
    """No job has died of this cause, or none that can be seen."""


class UnknownWorkflow(UnknownJob):
    """No workflow has this id, or none that can be seen."""


class UnknownQueue(JobsError):
    """No job was ever enqueued to this queue, and nobody has paused it."""

    code = PREFIX + "UNKNOWN_QUEUE"


class UnknownWorker(JobsError):
    """No worker has this id, or none that can be seen."""

    code = PREFIX + "UNKNOWN_WORKER"


class UnknownAlert(JobsError):
    """No rule for alerts has this name."""

    code = PREFIX + "UNKNOWN_ALERT"


class UnknownLimit(JobsError):
    """No limit has this name, so that jobs of this resource are not limited."""

    code = PREFIX + "UNKNOWN_LIMIT"


class PermitNotHeld(JobsError):
    """The job holds no permit that could be taken away from it."""

    code = PREFIX + "PERMIT_NOT_HELD"


class UnknownBatch(JobsError):
    """No batch has this id, or the job is not a member of any."""

    code = PREFIX + "UNKNOWN_BATCH"


class BatchClosed(JobsError):
    """The batch takes no further jobs: it is sealed, was cancelled or has ended. Nothing was written."""

    code = PREFIX + "BATCH_CLOSED"


class InvalidPayload(Refused, JobsError):
    """The payload is not JSON, breaks its schema, or is too large. Nothing was written.

    ``field`` is the place in the payload, such as ``payload.lines[2]``.
    """

    code = PREFIX + "INVALID_PAYLOAD"


class UpcastFailed(InvalidPayload):
    """A payload of an older version could not be turned into one of the definition's: the job is dead at once.

    A link of the chain is missing, an upcast raised, or what it returned does not fit.
    """

    code = PREFIX + "UPCAST_FAILED"


class PayloadNewer(JobsError):
    """The payload is of a newer version than this code knows; the job is left for a worker with newer code."""

    code = PREFIX + "PAYLOAD_NEWER"


class InvalidOption(Refused, JobsError, ValueError):
    """An option has a value that cannot work. The text names the option, the value and what is accepted.

    ``field`` is the option.
    """

    code = PREFIX + "INVALID_OPTION"


class DuplicateJob(JobsError):
    """The name is defined already."""

    code = PREFIX + "DUPLICATE_JOB"


class SchemaVersionMismatch(JobsError):
    """The tables are older or newer than this version of the library. Nothing was written."""

    code = PREFIX + "SCHEMA_VERSION_MISMATCH"


class SchemaMissing(SchemaVersionMismatch):
    """The tables are not there yet."""


class DriverMissing(JobsError):
    """The database driver is not installed. The text names the extra that brings it."""

    code = PREFIX + "DRIVER_MISSING"


class StorageUnavailable(JobsError):
    """The database cannot be reached, does not answer, or cannot be written to.

    ``maybe_done`` says whether the work may have been done all the same: it is false where nothing can have been
    changed, and true where the connection was lost before the answer came. ``read_only`` says that the database can
    only be read, ``timed_out`` that it stopped a statement which took too long, ``wrong_address`` that waiting for it
    would be in vain, ``denied`` that its user lacks a right, which ``sloppyjobs doctor`` names. Errors of a SQL
    database are also SQLAlchemy's ``DBAPIError``, with the driver's own error as ``orig``; one about a pool without a
    free connection is also SQLAlchemy's ``TimeoutError``.
    """

    code = PREFIX + "STORAGE_UNAVAILABLE"
    maybe_done: bool = False
    read_only: bool = False
    timed_out: bool = False
    wrong_address: bool = False
    denied: bool = False


class InvalidTransition(JobsError):
    """The state machine has no such edge.

    ``status`` is what the job was found to be, ``command`` what was asked for; None where it is not about one job, or
    not about a command of ``jobs.admin``.
    """

    code = PREFIX + "TRANSITION_INVALID"

    def __init__(self, *text: object, status: Status | None = None, command: str | None = None) -> None:
        super().__init__(*text)
        self.status = status
        self.command = command


class Expired(JobsError):
    """The job had not started when it expired. The code is stored with it; nobody raises this."""

    code = PREFIX + "EXPIRED"


class KeyConflict(JobsError):
    """A live job has the business key. ``job_id`` is the id of that job."""

    code = PREFIX + "KEY_CONFLICT"

    def __init__(self, *text: object, job_id: str | None = None, reason: str | None = None) -> None:
        super().__init__(*text)
        self.job_id = job_id
        self.reason = reason
        """The same in few words, without names."""


class InvalidWorkflow(JobsError):
    """A graph of jobs that cannot be written: a circle, an unknown parent, no jobs or too many. Nothing was written."""

    code = PREFIX + "INVALID_WORKFLOW"


class InvalidStep(JobsError):
    """A step cannot be kept or used: its name was used before in the attempt, its result does not fit, or the job has
    too many.
    """

    code = PREFIX + "INVALID_STEP"


class SignalTimeout(JobsError, TimeoutError):
    """Raised by ``ctx.wait_for`` when the signal has not come in time. An attempt that ends with it is not retried."""

    code = PREFIX + "SIGNAL_TIMEOUT"


class Suspension(BaseException):
    """Leaves a handler that sleeps or waits for a signal: its attempt ends here, and another one goes on later.

    It is no ``Exception``, so that ``except Exception`` lets it pass. A handler that catches it all the same is
    suspended when it ends, whatever it returns or raises.
    """


class DecryptionFailed(JobsError):
    """What is stored is encrypted and cannot be read: its key is not here, or it was changed.

    ``key`` is the id of the key, and ``missing`` says that it is not here. A job whose payload cannot be decrypted
    is dead at once, and runs when it is retried with the key.
    """

    code = PREFIX + "DECRYPTION_FAILED"

    def __init__(self, *text: object, key: str | None = None, missing: bool = False) -> None:
        super().__init__(*text)
        self.key = key
        self.missing = missing


class LockConflict(JobsError):
    """Somebody else holds the lock."""

    code = PREFIX + "LOCK_CONFLICT"


class HandlerFailed(JobsError):
    """The handler raised."""

    code = PREFIX + "HANDLER_FAILED"


class JobTimeout(JobsError):
    """The handler did not finish within the job's timeout."""

    code = PREFIX + "TIMEOUT"


class JobAborted(JobsError):
    """Raised inside a handler by ``ctx.signal.raise_if_aborted()``."""

    code = PREFIX + "ABORTED"


class LeaseExpired(JobsError):
    """The worker that held the job was not heard of in time."""

    code = PREFIX + "LEASE_EXPIRED"


class RowUnreadable(JobsError):
    """The job's row is damaged, so that it cannot be run: a column holds something that the library never writes."""

    code = PREFIX + "ROW_UNREADABLE"


class StaleLease(JobsError):
    """The attempt is not the current one any more; nothing was changed."""

    code = PREFIX + "STALE_LEASE"


class InvalidSchedule(Refused, JobsError):
    """The schedule can never work: a malformed expression, an unknown zone, or no occurrence at all.

    ``field`` is the option, such as ``cron``.
    """

    code = PREFIX + "RECURRING_INVALID_CRON"


class ReadTimeout(JobsError, TimeoutError):
    """A page of the admin service took longer than it may; narrower filters help."""

    code = PREFIX + "READ_TIMEOUT"


class WaitTimeout(JobsError, TimeoutError):
    """``jobs.wait`` gave up; the job itself goes on."""

    code = PREFIX + "WAIT_TIMEOUT"


# Codes that are stored with an attempt, though nobody raises them.
RELEASED = PREFIX + "RELEASED"
SNOOZED = PREFIX + "SNOOZED"
CANCELLED = PREFIX + "CANCELLED"
LOOP_ENDED = PREFIX + "LOOP_ENDED"
