"""What running handlers report, gathered and written in batches by the worker's own threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.logs import json_fields
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.claims import Fence

LOG_LINES = 1_000
"""Lines that are kept of one job; what comes after is counted, not kept."""

ENDED = 10_000
"""Attempts that are remembered after their end, because handlers may go on talking."""


@dataclass(slots=True)
class _Tally:
    """The lines of an attempt. ``kept`` are those of the job, earlier attempts included; None until it is looked up."""

    fence: Fence
    kept: int | None
    said: int = 0
    left_out: int = 0


class WorkerReports:
    """Progress and log lines wait here until the next flush; leases are extended at once."""

    def __init__(self, storage: Store, worker_id: str, lease: float, enqueue: Callable[..., Job]) -> None:
        self._storage = storage
        self._worker_id = worker_id
        self._lease = lease
        self._enqueue = enqueue
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._progress: dict[Fence, tuple[float | None, str | None, str | None]] = {}
        self._lines: list[tuple[_Tally, dict[str, Any]]] = []
        self._tallies: dict[Fence, _Tally] = {}
        self._concluded: list[_Tally] = []
        self._ended: dict[Fence, None] = {}

    def extend_lease(self, claim: Claim, seconds: float | None) -> bool:
        """Prolong the lease of one attempt."""
        held = [(claim.job.id, claim.attempt)]
        return bool(self._storage.renew(self._worker_id, held, seconds or self._lease))

    def progress(self, claim: Claim, percent: float | None, message: str | None, fields: str | None) -> None:
        """Remember the latest progress."""
        with self._lock:
            self._progress[claim.job.id, claim.attempt] = percent, message, fields

    def log(self, claim: Claim, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """Remember a line; it gets its time from the database when it is written."""
        fence = claim.job.id, claim.attempt
        with self._lock:
            if fence in self._ended:
                return
            tally = self._tallies.get(fence)
            if tally is None:
                # Only a first attempt is known to have none before it.
                tally = self._tallies[fence] = _Tally(fence, 0 if claim.attempt == 1 else None)
            tally.said += 1
            if tally.said > LOG_LINES:
                tally.left_out += 1
                return
            line = {
                "job_id": claim.job.id,
                "attempt_number": claim.attempt,
                "level": level,
                "message": message,
                "fields": json_fields(fields),
            }
            self._lines.append((tally, line))

    def enqueue(self, name: str, payload: Any, **options: Any) -> Job:
        """Enqueue a further job."""
        return self._enqueue(name, payload, **options)

    def conclude(self, fence: Fence) -> None:
        """The attempt has ended, and so has its right to report; the next flush says what was left out."""
        if not self._tallies:
            return
        with self._lock:
            tally = self._tallies.pop(fence, None)
            if tally is None:
                return
            self._concluded.append(tally)
            self._ended[fence] = None
            if len(self._ended) > ENDED:
                del self._ended[next(iter(self._ended))]

    def flush(self) -> None:
        """Write what has gathered; called before settlements, which end an attempt's right to report."""
        # What another thread is just writing counts too: the settlement must wait for it.
        if not (self._progress or self._lines or self._concluded or self._flushing.locked()):
            return
        with self._flushing:
            with self._lock:
                progress, self._progress = self._progress, {}
                lines, self._lines = self._lines, []
                concluded, self._concluded = self._concluded, []
            for fence, (percent, message, fields) in progress.items():
                self._storage.set_progress(self._worker_id, fence, percent, message, fields)
            if lines:
                self._write(lines)
            for tally in concluded:
                if tally.left_out:
                    self._storage.logs.record_omitted(tally.fence, tally.left_out)

    def _write(self, lines: list[tuple[_Tally, dict[str, Any]]]) -> None:
        unknown = {tally.fence[0] for tally, _ in lines if tally.kept is None}
        known = self._storage.logs.count(unknown, LOG_LINES) if unknown else {}
        moment = self._storage.clock.now()
        kept = []
        for tally, line in lines:
            before = known[tally.fence[0]] if tally.kept is None else tally.kept
            if before < LOG_LINES:
                tally.kept = before + 1
                kept.append({**line, "created_at": moment})
            else:
                tally.kept = before
                with self._lock:
                    tally.left_out += 1
        self._storage.logs.write(kept)
