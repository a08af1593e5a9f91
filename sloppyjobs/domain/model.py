"""The values that pass between the layers. Frozen, and free of behaviour that needs a database.

Pure: no I/O, no clock. Structs and not dataclasses, because thousands are built per second; those of the hot path hold
no cycles, and the garbage collector need not track them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import msgspec

from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.retry import Retry
from sloppyjobs.domain.sealed import MARK
from sloppyjobs.domain.states import AttemptStatus, Decision, Status, WaitingFor
from sloppyjobs.errors import InvalidOption

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from sloppyjobs.domain.dependencies import Dependency

    # A plain ``Job`` is a ``Job[Any]``.
    R = TypeVar("R", covariant=True, default=Any)
else:
    from typing import TypeVar

    R = TypeVar("R", covariant=True)

DEFAULT_RETRY = Retry()


# A struct looks up each keyword among all of its fields. With so many fields that takes longer than everything else, so
# where rows become jobs they are given by position.
class JobFacts(msgspec.Struct, frozen=True, gc=False):
    """The fields of a job that every view of it has: everything but its payload, metadata and result."""

    id: str
    name: str
    queue: str
    status: Status
    priority: int
    run_at: datetime
    created_at: datetime
    updated_at: datetime
    attempt_count: int
    max_attempts: int
    timeout: float | None = None
    locked_by: str | None = None
    locked_until: datetime | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    schedule_id: str | None = None
    occurrence_at: datetime | None = None
    principal: str | None = None
    progress: float | None = None
    progress_message: str | None = None
    error_code: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    error_frame: str | None = None
    paused_from: Status | None = None
    finished_at: datetime | None = None
    business_key: str | None = None
    superseded_by: str | None = None
    """The id of the job that took the place of this one."""
    supersedes: str | None = None
    """The id of the job whose place this one took."""
    expires_at: datetime | None = None
    """When it is cancelled unless it has started."""
    tags: tuple[str, ...] = ()
    waiting_for: str | None = None
    """What a waiting job waits for: ``jobs``, ``permit``, ``sleep`` or ``signal``; a paused one, what it waited for."""
    workflow_id: str | None = None
    batch_id: str | None = None
    resource: str | None = None
    """The limit under which it runs."""
    partition_key: str | None = None
    """Which of the limit's partitions it belongs to."""
    payload_version: int | None = None
    base_priority: int | None = None
    """With which priority it was enqueued, where that has risen since, in a queue that ages."""


class Job(JobFacts, Generic[R], frozen=True, gc=False):
    """A durable job as its row says. It never carries the payload: that goes to the handler alone.

    ``Job[R]`` has a result of type ``R``, for type checkers.
    """

    metadata: Mapping[str, Any] = {}
    result: R = None  # type: ignore[assignment]
    """What the handler returned, as JSON keeps it; None unless the job has succeeded."""
    progress_fields: Mapping[str, Any] = {}
    """The fields of the last ``ctx.progress``."""
    existing: bool = False
    """True where an idempotency key or a business key matched, so that this is the job that was there before."""
    damage: str | None = None
    """Which columns cannot be read and have a substitute here; None for every row that is not damaged."""


# Plain numbers: to join flags takes longer than everything else that is done for a job with a key.
_KEY, _PENDING_KEY = int(Followup.KEY), int(Followup.PENDING_KEY)
_PARENTS, _ANY_OF_PARENTS = int(Followup.PARENTS), int(Followup.PARENTS | Followup.ANY_PARENT)
_PERMIT, _DEPENDANTS, _BATCH = int(Followup.PERMIT), int(Followup.DEPENDANTS), int(Followup.BATCH)


class Terms(msgspec.Struct, frozen=True, gc=False):
    """The options of a new job, without its payload. Jobs of one batch mostly share theirs."""

    name: str
    queue: str
    priority: int = 0
    run_at: datetime | None = None
    delay: float | None = None
    max_attempts: int = 3
    retry_policy: str | None = None
    timeout: float | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    schedule_id: str | None = None
    occurrence_at: datetime | None = None
    principal: str | None = None
    metadata: str | None = None
    business_key: str | None = None
    on_conflict: str = "return"
    unique: str = "live"
    unique_for: float | None = None
    supersedes: str | None = None
    expires: float | None = None
    expires_at: datetime | None = None
    tags: str | None = None
    """As JSON, as they are stored."""
    depends_on: tuple[Dependency, ...] = ()
    depends_on_any: bool = False
    waits: bool = False
    """Whether a job with dependencies must wait; storage decides it, which sees the other jobs."""
    workflow_id: str | None = None
    batch_id: str | None = None
    resource: str | None = None
    partition_key: str | None = None
    payload_version: int | None = None
    awaited: bool = False
    """Whether another job of the same call waits for it; storage decides it."""
    batch_adder: str | None = None
    """The running member of the batch that adds this job to it; None where somebody outside does."""

    @property
    def waiting_for(self) -> str | None:
        """What a new job waits for, if it must."""
        return WaitingFor.JOBS.value if self.waits else None

    @property
    def linked(self) -> bool:
        """Whether the job has rows besides its own, or takes the place of another."""
        # The fields are those of ``LINKING``.
        alone = self.business_key is None and self.tags is None and self.expires is None and self.supersedes is None
        return bool(self.depends_on) or not alone

    @property
    def followups(self) -> int | None:
        """What hangs on the job from the start; None for a plain one."""
        bits = 0
        if self.business_key is not None:
            bits |= _PENDING_KEY if self.unique == "pending" else _KEY
        if self.depends_on:
            bits |= _ANY_OF_PARENTS if self.depends_on_any else _PARENTS
        if self.resource is not None:
            bits |= _PERMIT
        if self.awaited:
            bits |= _DEPENDANTS
        if self.batch_id is not None:
            bits |= _BATCH
        return bits or None


DERIVED = {
    "waiting_for": ("waits",),
    "followups": ("business_key", "unique", "depends_on", "depends_on_any", "resource", "awaited", "batch_id"),
}
"""What terms say by themselves, and the fields of which they say it."""

LINKING = ("business_key", "tags", "expires", "supersedes", "depends_on")
"""The fields of terms by which a job is linked."""


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A validated job on its way into the table. Storage decides ``queued`` or ``scheduled`` by its clock."""

    id: str
    payload: str
    terms: Terms


class AlikeJobs(tuple[NewJob, ...]):
    """New jobs of which it is known in which fields their terms can differ, so that nobody has to look at each."""

    differing: frozenset[str]

    @classmethod
    def of(cls, jobs: Iterable[NewJob], differing: frozenset[str]) -> AlikeJobs:
        """The jobs, and the fields."""
        made = cls(jobs)
        made.differing = differing
        return made


def part_of(new: Sequence[NewJob], start: int, stop: int) -> Sequence[NewJob]:
    """Some of these jobs, of which as much is known as of all."""
    part = new[start:stop]
    return AlikeJobs.of(part, new.differing) if isinstance(new, AlikeJobs) else part


def terms_by(new: Sequence[NewJob], *fields: str) -> Collection[Terms]:
    """Terms that stand for those of all these jobs as far as these fields go; jobs of one call mostly share theirs."""
    if isinstance(new, AlikeJobs) and new.differing.isdisjoint(fields):
        return (new[0].terms,)
    return {id(job.terms): job.terms for job in new}.values()


class Claim(msgspec.Struct, frozen=True, gc=False):
    """One attempt that is ours until ``locked_until``: everything that is needed to run and to settle it.

    It survives JSON (``to_json`` / ``from_json``), so that a broker can hand it to a worker elsewhere.
    """

    job: Job
    attempt: int
    worker_id: str
    locked_until: datetime
    payload_json: str
    retry_json: str | None = None
    followups: int | None = None
    """What hung on the job when it was claimed, as bits; storage settles by it."""

    @property
    def id(self) -> str:
        """The id of the claimed job."""
        return self.job.id

    @property
    def sealed(self) -> bool:
        """Whether the payload is encrypted; a damaged row may hold something else than a text."""
        return isinstance(self.payload_json, str) and self.payload_json.startswith(MARK)

    @property
    def expired(self) -> bool:
        """Whether the job of this first attempt had expired when it was claimed; once it has started it goes on."""
        until = self.job.expires_at
        return until is not None and self.attempt == 1 and until <= self.job.updated_at

    @property
    def payload(self) -> Any:
        """The payload as it was enqueued."""
        return msgspec.json.decode(self.payload_json)

    @property
    def retry(self) -> Retry:
        """The retry policy that was stored with the job; the default where that is damaged."""
        if self.retry_json is None:
            return DEFAULT_RETRY
        try:
            return Retry.from_json(self.retry_json)
        except (ValueError, TypeError, msgspec.MsgspecError):
            return DEFAULT_RETRY

    def to_json(self) -> str:
        """This claim as JSON text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Claim:
        """The claim that ``to_json`` wrote; ``InvalidOption`` for any other text, which is not repeated."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, TypeError, UnicodeError):
            raise InvalidOption("text: is no claim, as to_json writes it", field="text") from None


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """A decided attempt on its way into the tables, fenced by job, owner and attempt number."""

    job_id: str
    attempt: int
    worker_id: str
    decision: Decision
    run_seconds: float | None = None
    batch_id: str | None = None
    """The batch of the job, as the claim said."""
    followups: int | None = None
    """What hung on the job when it was claimed. More may hang on it by now: the row decides."""
    lane: tuple[str, str] | None = None
    """The queue and the name of the job, as the claim said."""


class Ended(NamedTuple):
    """An attempt that was settled: the job as it was held, and what was decided about it."""

    job: Job
    settlement: Settlement


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a job."""

    job_id: str
    attempt_number: int
    worker_id: str
    status: AttemptStatus
    started_at: datetime
    finished_at: datetime | None = None
    duration: float | None = None
    """Seconds in the handler where the worker measured them, else from claim to settlement."""
    error_code: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    error_frame: str | None = None
    traceback: str | None = None


class EventFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an event that every view of it has: one edge of the state machine that a job took."""

    job_id: str
    event_type: str
    from_status: Status | None
    to_status: Status
    created_at: datetime
    attempt_number: int | None = None
    worker_id: str | None = None
    actor: str | None = None
    message: str | None = None


class Event(EventFacts, frozen=True, kw_only=True):
    """One edge that a job took, as its row says. ``id`` orders a job's events."""

    id: int


class Lock(msgspec.Struct, frozen=True, kw_only=True):
    """A named lock and who holds it until when."""

    name: str
    owner: str
    locked_until: datetime
    updated_at: datetime


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker process says of itself."""

    id: str
    hostname: str
    pid: int
    queues: tuple[str, ...]
    names: tuple[str, ...]
    concurrency: int
    heartbeat: float
    version: str
    status: str = "running"
    started_at: datetime | None = None
    heartbeat_at: datetime | None = None
    stopped_at: datetime | None = None
    running: int = 0
    stuck: int = 0
    """Slots that are held by handlers whose attempt has ended."""
    memory: int | None = None
    """Bytes of memory of its process; None where that is not known."""
    done: int | None = None
    """Attempts that succeeded since it started."""
    failed: int | None = None
    """Attempts that failed or timed out."""
    app_version: str | None = None
    """The version of its application, where that is known; ``version`` is the library's."""
    application: str | None = None
    """The name of its application, as ``Jobs(application=…)`` says it."""
