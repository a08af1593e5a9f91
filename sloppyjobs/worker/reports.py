"""What running handlers report, gathered and written in batches by the worker's own threads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from sloppyjobs import errors, payload
from sloppyjobs.model import Claim, Job
from sloppyjobs.storage import SqlStorage
from sloppyjobs.storage.settlement import Fence

LOG_LINES = 1_000
"""Lines that are kept of one attempt; what comes after is counted, not kept."""

FIELDS_LIMIT = 8_000


class WorkerReports:
    """Progress and log lines wait here until the next flush; leases are extended at once."""

    def __init__(self, storage: SqlStorage, worker_id: str, lease: float, enqueue: Callable[..., Job]) -> None:
        self._storage = storage
        self._worker_id = worker_id
        self._lease = lease
        self._enqueue = enqueue
        self._lock = threading.Lock()
        self._progress: dict[Fence, tuple[float, str | None]] = {}
        self._lines: list[dict[str, Any]] = []
        self._counted: Counter[Fence] = Counter()

    def extend_lease(self, claim: Claim, seconds: float | None) -> bool:
        """Prolong the lease of one attempt."""
        held = [(claim.job.id, claim.attempt)]
        return bool(self._storage.renew(self._worker_id, held, seconds or self._lease))

    def progress(self, claim: Claim, percent: float, message: str | None) -> None:
        """Remember the latest progress."""
        with self._lock:
            self._progress[claim.job.id, claim.attempt] = percent, message

    def log(self, claim: Claim, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """Remember a line; it gets its time from the database when it is written."""
        fence = claim.job.id, claim.attempt
        with self._lock:
            self._counted[fence] += 1
            if self._counted[fence] > LOG_LINES:
                return
            if self._counted[fence] == LOG_LINES:
                level, message, fields = (
                    "warning",
                    f"further lines are not kept: {LOG_LINES} is the limit",
                    {},
                )
            self._lines.append(
                {
                    "job_id": claim.job.id,
                    "attempt_number": claim.attempt,
                    "level": level,
                    "message": message,
                    "fields": _fields(fields),
                }
            )

    def enqueue(self, name: str, payload: Any, **options: Any) -> Job:
        """Enqueue a further job."""
        return self._enqueue(name, payload, **options)

    def forget(self, fence: Fence) -> None:
        """The attempt is settled; its counter is not needed any more."""
        if self._counted:
            with self._lock:
                self._counted.pop(fence, None)

    def flush(self) -> None:
        """Write what has gathered; called before settlements, which end an attempt's right to report."""
        if not self._progress and not self._lines:
            return
        with self._lock:
            progress, self._progress = self._progress, {}
            lines, self._lines = self._lines, []
        for fence, (percent, message) in progress.items():
            self._storage.set_progress(self._worker_id, fence, percent, message)
        if lines:
            moment = self._storage.clock.now()
            self._storage.write_logs([{**line, "created_at": moment} for line in lines])


def _fields(fields: Mapping[str, Any]) -> str | None:
    if not fields:
        return None
    try:
        return payload.encode(dict(fields), what="fields", limit=FIELDS_LIMIT)
    except errors.InvalidPayload:
        readable = {str(key): payload.clean_text(value, 500) for key, value in list(fields.items())[:20]}
        return payload.encode(readable, what="fields", limit=1_000_000)
