"""A store that keeps jobs in plain Python structures: the proof that ``Jobs`` and a worker need only the ports.

It promises what the parts ``enqueue``, ``claim``, ``settle``, ``leases``, ``run`` and ``locks`` of the conformance
suite ask for. One class for each port, over one state whose lock stands for a transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from memory_inspection import MemoryInspection
from memory_state import State, as_claim, as_job, moved
from memory_workers import MemoryLogs, MemoryRedactions, MemoryWatcher, MemoryWorkers

from sloppyjobs import errors
from sloppyjobs.domain.model import Claim, Ended, Job, NewJob, Settlement
from sloppyjobs.domain.states import FINISHED, Failure, Lost, Status, decide
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.ports.claims import ALL_QUEUES, SWEEP_LIMIT, ClaimRequest, Fence, Sweep, TransactionTurns, Turns
from sloppyjobs.storage.ports.records import (
    AttemptRecord,
    CounterRecord,
    EventRecord,
    JobRecord,
    LockRecord,
    QueueRecord,
)


class SystemClock:
    """The clock of this process, which is the store's."""

    def now(self) -> datetime:
        """The current instant."""
        return datetime.now(UTC)


class MemoryInserts:
    """``EnqueuePort`` and the reading of one job."""

    def __init__(self, state: State) -> None:
        self._state = state

    def insert_jobs(self, new: Sequence[NewJob], connection: Any = None) -> list[Job]:
        """Write the jobs and their first events, all or none."""
        assert connection is None
        with self._state as state:
            now = state.clock.now()
            added: dict[str, JobRecord] = {}
            keys = {job.idempotency_key: job for job in state.jobs.values() if job.idempotency_key is not None}
            answers: list[tuple[JobRecord, bool]] = []
            for one in new:
                held = keys.get(one.terms.idempotency_key)
                if held is None:
                    added[one.id] = held = _new_record(one, now)
                    answers.append((held, False))
                    if held.idempotency_key is not None:
                        keys[held.idempotency_key] = held
                else:
                    answers.append((held, True))
            # Nothing was written so far: whatever is wrong with one of them refuses all.
            for job in added.values():
                state.jobs[job.id] = job
                state.queues.setdefault(job.queue, QueueRecord(job.queue, now))
                state.events.append(EventRecord(job.id, "created", None, job.status, now))
            state.news.set()
            return [as_job(job, existing=existing) for job, existing in answers]

    def get_job(self, job_id: str, connection: Any = None) -> Job:
        """The job with this id, or ``UnknownJob``."""
        with self._state as state:
            found = state.jobs.get(job_id)
        if found is None:
            raise errors.UnknownJob(f"no job has the id {str(job_id)[:100]!r}")
        return as_job(found)


class MemorySettlements:
    """``SettlePort``: outcomes, fenced by owner and attempt."""

    def __init__(self, state: State) -> None:
        self._state = state

    def settle(self, settlements: Sequence[Settlement]) -> set[str]:
        """Write what was decided; the ids that were accepted."""
        with self._state as state:
            # Of two outcomes of one attempt, the second does not pass the fence any more.
            return {one.job_id for one in settlements if self._settle(state, one, state.clock.now())}

    def _settle(self, state: State, one: Settlement, now: datetime) -> bool:
        job = state.held(one.worker_id, (one.job_id, one.attempt))
        if job is None:
            return False
        decision, failure = one.decision, one.decision.failure
        target = decision.path[-1]
        error = {
            "error_code": failure.code if failure else None,
            "error_type": failure.type if failure else None,
            "error_message": failure.message if failure else None,
            "error_frame": failure.frame if failure else None,
        }
        job = job._replace(
            status=target.value,
            run_at=now + timedelta(seconds=decision.delay) if decision.retries else job.run_at,
            updated_at=now,
            finished_at=now if target in FINISHED else None,
            locked_by=None,
            locked_until=None,
            max_attempts=job.max_attempts + (0 if decision.counts else 1),
            result=decision.result if target is Status.SUCCEEDED else job.result,
            **error,
        )
        state.jobs[job.id] = job
        state.attempts[job.id, one.attempt] = state.attempts[job.id, one.attempt]._replace(
            status=decision.attempt.value,
            finished_at=now,
            run_seconds=one.run_seconds,
            traceback=failure.traceback if failure else None,
            **error,
        )
        message = failure.message if failure else decision.message
        state.events += moved(job.id, (Status.PROCESSING, *decision.path), now, one.attempt, one.worker_id, message)
        _count(state, job, one, now)
        return True


class MemoryClaims:
    """``ClaimPort``: what is due, in order, and what comes back before."""

    def __init__(self, state: State, settlements: MemorySettlements) -> None:
        self._state = state
        self._settlements = settlements

    def sweep(self, limit: int = SWEEP_LIMIT) -> Sweep:
        """Settle expired leases as lost, then queue what has become due."""
        with self._state as state:
            now = state.clock.now()
            leases = sorted((job.locked_until, job.id) for job in state.jobs.values() if job.locked_until is not None)
            due = sorted((job.run_at, job.id) for job in state.jobs.values() if job.status in ("scheduled", "retrying"))
            upcoming = [heads[0][0] for heads in (leases, due) if heads]
            lost = [_lost(as_job(state.jobs[id])) for until, id in leases if until < now][:limit]
            self._settlements.settle([one.settlement for one in lost])
            ready = [id for run_at, id in due if run_at <= now][:limit]
            for job_id in ready:
                before = Status(state.jobs[job_id].status)
                state.jobs[job_id] = state.jobs[job_id]._replace(status="queued", updated_at=now)
                state.events += moved(job_id, (before, Status.QUEUED), now)
            next_in = max(0.0, (min(upcoming) - now).total_seconds()) if upcoming else None
            return Sweep(len(lost), len(ready), next_in, tuple(lost))

    def claim(self, request: ClaimRequest) -> list[Claim]:
        """Take up to ``limit`` queued jobs."""
        with self._state as state:
            now = state.clock.now()
            found = [job for job in state.jobs.values() if _may_take(state, job, request, now)]
            found.sort(key=lambda job: (-job.priority, job.run_at, job.created_at, job.id))
            return [self._take(state, job, request, now) for job in found[: request.limit]]

    def turn(self, settlements: Sequence[Settlement], request: ClaimRequest | None) -> tuple[set[str], list[Claim]]:
        """Settle and claim."""
        with self._state:
            return self._settlements.settle(settlements), [] if request is None else self.claim(request)

    def turns(self) -> Turns:
        """Settle and claim, beginning first and waiting later."""
        return TransactionTurns(self.turn)

    def watch(self) -> MemoryWatcher:
        """Wait for new jobs."""
        return MemoryWatcher(self._state.news)

    def _take(self, state: State, job: JobRecord, request: ClaimRequest, now: datetime) -> Claim:
        taken = job._replace(
            status="processing",
            attempt_count=job.attempt_count + 1,
            locked_by=request.worker_id,
            locked_until=now + timedelta(seconds=request.lease),
            updated_at=now,
            progress_percent=None,
            progress_message=None,
            progress_fields=None,
        )
        state.jobs[job.id] = taken
        number, worker = taken.attempt_count, request.worker_id
        state.attempts[job.id, number] = AttemptRecord(job.id, number, worker, "running", now)
        state.events += moved(job.id, (Status.QUEUED, Status.PROCESSING), now, number, worker)
        return as_claim(taken)


class MemoryLeases:
    """``LeasePort``: leases and progress of attempts that are held."""

    def __init__(self, state: State) -> None:
        self._state = state

    def renew(self, worker_id: str, held: Sequence[Fence], lease: float) -> dict[Fence, datetime]:
        """Extend the leases that are still held."""
        with self._state as state:
            until = state.clock.now() + timedelta(seconds=lease)
            kept = self.still_held(worker_id, held)
            for job_id, _ in kept:
                state.jobs[job_id] = state.jobs[job_id]._replace(locked_until=until)
            return dict.fromkeys(kept, until)

    def still_held(self, worker_id: str, held: Sequence[Fence]) -> set[Fence]:
        """Which attempts are still the worker's."""
        with self._state as state:
            return {fence for fence in held if state.held(worker_id, fence) is not None}

    def set_progress(
        self, worker_id: str, fence: Fence, percent: float | None, message: str | None, fields: str | None = None
    ) -> bool:
        """Store progress of an attempt that is held."""
        with self._state as state:
            job = state.held(worker_id, fence)
            if job is not None:
                state.jobs[job.id] = job._replace(
                    progress_percent=percent, progress_message=message, progress_fields=fields
                )
            return job is not None


class MemoryLocks:
    """``LockPort``."""

    def __init__(self, state: State) -> None:
        self._state = state

    def acquire(self, name: str, owner: str, ttl: float) -> bool:
        """Take a free, expired or own lock."""
        with self._state as state:
            now, held = state.clock.now(), state.locks.get(name)
            if held is not None and held.owner != owner and held.locked_until > now:
                return False
            state.locks[name] = LockRecord(name, owner, now + timedelta(seconds=ttl), now)
            return True

    def extend(self, name: str, owner: str, ttl: float) -> bool:
        """Prolong a held lock."""
        with self._state as state:
            held = state.locks.get(name)
            if held is None or held.owner != owner or held.locked_until <= state.clock.now():
                return False
            return self.acquire(name, owner, ttl)

    def release(self, name: str, owner: str) -> bool:
        """Give a held lock back."""
        with self._state as state:
            held = state.locks.get(name)
            return held is not None and held.owner == owner and state.locks.pop(name) is held


class NothingDue:
    """What a worker looks for and never finds here: schedules, retries of causes of death, batches."""

    def due(self, limit: int | None = None) -> list[str]:
        """Nothing."""
        return []

    def next_in(self) -> float | None:
        """Never."""
        return None

    def due_actions(self) -> list[str]:
        """Nothing."""
        return []

    def sweep(self, limit: int) -> int:
        """Nothing."""
        return 0


class MemoryStore:
    """The parts as the one object that ``Jobs`` takes; without schedules, commands and transactions of callers."""

    def __init__(self, clock: Clock | None = None, state: State | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        state = State(self.clock) if state is None else state
        settlements = MemorySettlements(state)
        self._parts = (
            MemoryInserts(state),
            settlements,
            MemoryClaims(state, settlements),
            MemoryLeases(state),
        )
        self.locks = MemoryLocks(state)
        self.workers = MemoryWorkers(state)
        self.logs = MemoryLogs(state)
        self.redactions = MemoryRedactions()
        self.firing = self.retry_run_rows = self.batches = self.batch_rows = NothingDue()
        self.inspection = MemoryInspection(state)

    def __getattr__(self, name: str) -> Any:
        for part in self.__dict__.get("_parts", ()):
            if hasattr(part, name):
                return getattr(part, name)
        raise AttributeError(name)

    def insert_jobs(self, new: Sequence[NewJob], connection: Any = None) -> list[Job]:
        """As ``EnqueuePort`` says; by having it, this is a store."""
        return self._parts[0].insert_jobs(new, connection)

    def init(self) -> int:
        """There is nothing to create."""
        return 1

    def ensure_schema(self, connection: Any = None) -> None:
        """There is nothing that could be missing."""

    def with_own_connections(self) -> Self:
        """There are no connections that others could use up."""
        return self

    def close(self) -> None:
        """There is nothing to close."""


def _new_record(new: NewJob, now: datetime) -> JobRecord:
    if not isinstance(new.payload, str):
        raise TypeError("payload: must be JSON text")
    terms = new.terms
    run_at = terms.run_at or now + timedelta(seconds=terms.delay or 0)
    return JobRecord(
        id=new.id,
        name=terms.name,
        queue=terms.queue,
        status="queued" if run_at <= now else "scheduled",
        priority=terms.priority,
        run_at=run_at,
        created_at=now,
        updated_at=now,
        attempt_count=0,
        max_attempts=terms.max_attempts,
        payload=new.payload,
        timeout_seconds=terms.timeout,
        idempotency_key=terms.idempotency_key,
        correlation_id=terms.correlation_id,
        schedule_id=terms.schedule_id,
        occurrence_at=terms.occurrence_at,
        principal=terms.principal,
        retry_policy=terms.retry_policy,
        metadata=terms.metadata,
    )


def _may_take(state: State, job: JobRecord, request: ClaimRequest, now: datetime) -> bool:
    return (
        job.status == "queued"
        and job.run_at <= now
        and (ALL_QUEUES in request.queues or job.queue in request.queues)
        and (request.names is None or job.name in request.names)
        and not state.is_paused(job.queue, now)
    )


def _lost(job: Job) -> Ended:
    failure = Failure(
        errors.LeaseExpired.code,
        f"{job.locked_by} held the job until {job.locked_until} and was not heard of since",
        type="sloppyjobs.errors.LeaseExpired",
    )
    decision = decide(job.attempt_count, job.max_attempts, Lost(failure))
    return Ended(job, Settlement(job.id, job.attempt_count, job.locked_by or "", decision))


def _count(state: State, job: JobRecord, one: Settlement, now: datetime) -> None:
    path = one.decision.path
    key = (now.replace(second=0, microsecond=0), job.queue, job.name)
    before = state.counters.get(key, CounterRecord(*key, 0, 0, 0, 0, 0.0))
    state.counters[key] = before._replace(
        succeeded=before.succeeded + (path[0] is Status.SUCCEEDED),
        failed=before.failed + (path[0] is Status.FAILED and one.decision.counts),
        dead=before.dead + (path[-1] is Status.DEAD),
        cancelled=before.cancelled + (path[0] is Status.CANCELLED),
        run_seconds=before.run_seconds + (one.run_seconds or 0.0),
    )
