"""What running handlers report, buffered and written in batches by the worker's own threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.domain.parents import Parents
from sloppyjobs.domain.steps import Answer, Kept, StepKind
from sloppyjobs.encryption import PLAIN, RESULT, Sealing, sealed_as
from sloppyjobs.enqueue.batches import Batch
from sloppyjobs.enqueue.option_types import Item
from sloppyjobs.logs import json_fields
from sloppyjobs.storage.ports.claims import Fence
from sloppyjobs.worker.storage import ReportStorage

if TYPE_CHECKING:
    from sloppyjobs.jobs import Jobs

LOG_LINES = 1_000
"""Lines that are stored of one job; what comes after is only counted."""

REMEMBERED_ATTEMPTS = 10_000
"""Attempts that are remembered after their end, because their handlers may go on reporting."""


@dataclass(slots=True)
class _LogCount:
    """The lines of an attempt. ``stored`` are those of the job, earlier attempts included; None until it is read."""

    fence: Fence
    stored: int | None
    logged: int = 0
    omitted: int = 0


class WorkerReports:
    """Progress and log lines wait here until the next flush; leases are extended at once."""

    def __init__(
        self, storage: ReportStorage, worker_id: str, lease: float, jobs: Jobs, sealing: Sealing = PLAIN
    ) -> None:
        self._storage = storage
        self._worker_id = worker_id
        self._lease = lease
        self._jobs = jobs
        self._sealing = sealing
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._progress: dict[Fence, tuple[float | None, str | None, str | None]] = {}
        self._lines: list[tuple[_LogCount, dict[str, Any]]] = []
        self._counts: dict[Fence, _LogCount] = {}
        self._ended_counts: list[_LogCount] = []
        self._ended: dict[Fence, None] = {}
        self._extended: dict[Fence, float] = {}
        self._leases = threading.Lock()
        self.used = False
        """Whether any handler has reported yet; until then there is nothing to end, and nothing to flush."""

    def extend_lease(self, claim: Claim, seconds: float | None) -> bool:
        """Prolong the lease of one attempt; renewals leave it so long."""
        fence, wanted = (claim.job.id, claim.attempt), seconds or self._lease
        with self._leases:
            until = time.monotonic() + wanted
            held = bool(self._storage.renew(self._worker_id, [fence], wanted))
            if held:
                self._extended[fence] = until
        return held

    def renew_leases(self, unfinished: Callable[[], Collection[Fence]]) -> set[Fence]:
        """Renew the leases of what is unfinished; returns those that are still ours.

        What a handler has extended further is left so long. The lock keeps it from doing so in between.
        """
        with self._leases:
            held, begun = set(unfinished()), time.monotonic()
            longer = begun + self._lease
            self._extended = {one: until for one, until in self._extended.items() if one in held and until > longer}
            plain = [fence for fence in held if fence not in self._extended]
            still_held = set(self._storage.renew(self._worker_id, plain, self._lease))
            for fence, until in self._extended.items():
                still_held.update(self._storage.renew(self._worker_id, [fence], until - begun))
        return still_held

    def progress(self, claim: Claim, percent: float | None, message: str | None, fields: str | None) -> None:
        """Buffer the latest progress."""
        self.used = True
        with self._lock:
            self._progress[claim.job.id, claim.attempt] = percent, message, fields

    def log(self, claim: Claim, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """Buffer a line; it gets its time from the database when it is written."""
        fence = claim.job.id, claim.attempt
        self.used = True
        with self._lock:
            if fence in self._ended:
                return
            count = self._counts.get(fence)
            if count is None:
                # Only a first attempt is known to have none before it.
                count = self._counts[fence] = _LogCount(fence, 0 if claim.attempt == 1 else None)
            count.logged += 1
            if count.logged > LOG_LINES:
                count.omitted += 1
                return
            line = {
                "job_id": claim.job.id,
                "attempt_number": claim.attempt,
                "level": level,
                "message": message,
                "fields": json_fields(fields),
            }
            self._lines.append((count, line))

    def enqueue(self, name: str, payload: Any, **options: Any) -> Job:
        """Enqueue a further job."""
        return self._jobs.enqueue(name, payload, **options)

    def add_member(self, claim: Claim, name: str, payload: Any, options: Mapping[str, Any]) -> Job:
        """Enqueue a further job of the same batch."""
        return self._batch(claim).enqueue(name, payload, **options)

    def add_members(self, claim: Claim, items: Sequence[Item]) -> list[Job]:
        """Enqueue further jobs of the same batch."""
        return self._batch(claim).enqueue_many(items)

    def _batch(self, claim: Claim) -> Batch:
        assert claim.job.batch_id is not None
        return Batch(self._jobs, claim.job.batch_id, "", adder=claim.job.id)

    def parents(self, claim: Claim) -> Parents:
        """Read the results of the jobs that this one has waited for."""
        open_text = self._sealing.open
        found = self._storage.dependencies.parent_results(claim.job.id)
        return Parents([(id, name, text and open_text(id, RESULT, text)) for id, name, text in found])

    def known_steps(self, claim: Claim) -> list[Kept]:
        """Read what earlier attempts have kept."""
        found = self._storage.steps.known(claim.job.id)
        return [one._replace(result=self._opened(claim, one.kind, one.name, one.result)) for one in found]

    def keep_step(self, claim: Claim, name: str, result: str, seconds: float, place: int) -> bool:
        """Write the result of a step."""
        fence = claim.job.id, claim.attempt
        sealed = self._sealing.seal(claim.job.id, sealed_as(StepKind.STEP, name), result)
        return self._storage.steps.keep(self._worker_id, fence, name, sealed, seconds, place)

    def ask_step(self, claim: Claim, kind: StepKind, name: str, seconds: float | None, place: int) -> Answer | None:
        """Begin a sleep or a wait for a signal, or see what has become of it."""
        fence = claim.job.id, claim.attempt
        answer = self._storage.steps.ask(self._worker_id, fence, kind, name, seconds, place)
        return answer and answer._replace(result=self._opened(claim, kind, name, answer.result))

    def _opened(self, claim: Claim, kind: StepKind, name: str, result: str | None) -> str | None:
        return None if result is None else self._sealing.open(claim.job.id, sealed_as(kind, name), result)

    def end_attempt(self, fence: Fence) -> None:
        """The attempt has ended, and so has its right to report; the next flush records what was omitted."""
        if not self._counts:
            return
        with self._lock:
            count = self._counts.pop(fence, None)
            if count is None:
                return
            self._ended_counts.append(count)
            self._ended[fence] = None
            if len(self._ended) > REMEMBERED_ATTEMPTS:
                del self._ended[next(iter(self._ended))]

    def flush(self) -> None:
        """Write what is buffered; called before settlements, which end an attempt's right to report."""
        # A flush in another thread counts too: the settlement must wait for it.
        if not (self._progress or self._lines or self._ended_counts or self._flushing.locked()):
            return
        with self._flushing:
            with self._lock:
                progress, self._progress = self._progress, {}
                lines, self._lines = self._lines, []
                counts, self._ended_counts = self._ended_counts, []
            for fence, (percent, message, fields) in progress.items():
                self._storage.set_progress(self._worker_id, fence, percent, message, fields)
            if lines:
                self._write(lines)
            for count in counts:
                if count.omitted:
                    self._storage.logs.record_omitted(count.fence, count.omitted)

    def _write(self, lines: list[tuple[_LogCount, dict[str, Any]]]) -> None:
        unknown = {count.fence[0] for count, _ in lines if count.stored is None}
        known = self._storage.logs.count(unknown, LOG_LINES) if unknown else {}
        now = self._storage.clock.now()
        rows = []
        for count, line in lines:
            before = known[count.fence[0]] if count.stored is None else count.stored
            if before < LOG_LINES:
                count.stored = before + 1
                rows.append({**self._sealing.seal_line(line), "created_at": now})
            else:
                count.stored = before
                with self._lock:
                    count.omitted += 1
        self._storage.logs.write(rows)
