"""A client whose every request and answer is in the log."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.jobs import Jobs
from sloppyjobs.locks import Locks
from sloppyjobs.schedules.occurrences import Recurring
from sloppyjobs.testing.history.log import METADATA_KEY, Log


class Client:
    """The methods of ``Jobs`` that change something, with the same arguments, written down before and after."""

    def __init__(self, jobs: Jobs, log: Log) -> None:
        self.jobs = jobs
        self.log = log

    def enqueue(self, name: str, payload: Any = None, **options: Any) -> Job:
        """As ``Jobs.enqueue``. In a transaction of yours, say ``log.committed(job)`` or ``log.rolled_back(job)``."""
        token = self.log.enqueuing(name)
        try:
            job = self.jobs.enqueue(name, payload, **_marked(options, token))
        except BaseException as error:
            self.log.enqueue_failed(token, error)
            raise
        self._acknowledge(token, job, options, committed=not _in_transaction(options))
        return job

    def enqueue_many(self, items: Iterable[tuple[Any, ...]], **where: Any) -> list[Job]:
        """As ``Jobs.enqueue_many``."""
        given = [(item[0], item[1], dict(item[2]) if len(item) > 2 else {}) for item in items]
        tokens = [self.log.enqueuing(name) for name, _, _ in given]
        marked = [
            (name, payload, _marked(options, token))
            for token, (name, payload, options) in zip(tokens, given, strict=True)
        ]
        try:
            written = self.jobs.enqueue_many(marked, **where)
        except BaseException as error:
            for token in tokens:
                self.log.enqueue_failed(token, error)
            raise
        for token, job, (_, _, options) in zip(tokens, written, given, strict=True):
            self._acknowledge(token, job, options, committed=not _in_transaction(where))
        return written

    def complete(self, claim: Claim, result: Any = None) -> bool:
        """As ``Jobs.complete``."""
        return self._settled(claim, self.jobs.complete(claim, result))

    def fail(self, claim: Claim, error: BaseException | str, retry_after: float | timedelta | None = None) -> bool:
        """As ``Jobs.fail``."""
        return self._settled(claim, self.jobs.fail(claim, error, retry_after))

    def recurring(self, name: str, job_name: str, payload: Any = None, **settings: Any) -> Recurring:
        """As ``Jobs.recurring``."""
        registered = self.jobs.recurring(name, job_name, payload, **settings)
        self.log.scheduled(registered)
        return registered

    def locks(self, owner: str) -> RecordedLocks:
        """As ``Jobs.locks``."""
        return RecordedLocks(self.jobs.locks(owner), self.log)

    def _acknowledge(self, token: str, job: Job, options: Mapping[str, Any], *, committed: bool) -> None:
        key = options.get("idempotency_key")
        self.log.enqueued(token, job, committed=committed, not_before=_not_before(options, job), key=key)

    def _settled(self, claim: Claim, accepted: bool) -> bool:
        self.log.settled(claim.id, claim.attempt, accepted)
        return accepted


class RecordedLocks:
    """Locks of one owner, written down so that the log's intervals lie inside of the real ones."""

    def __init__(self, locks: Locks, log: Log) -> None:
        self._locks = locks
        self._log = log

    def acquire(self, name: str, ttl: float = 30) -> bool:
        """As ``Locks.acquire``."""
        asked = time.monotonic()
        return self._held(name, asked + ttl, self._locks.acquire(name, ttl))

    def extend(self, name: str, ttl: float = 30) -> bool:
        """As ``Locks.extend``."""
        asked = time.monotonic()
        return self._held(name, asked + ttl, self._locks.extend(name, ttl))

    def release(self, name: str) -> bool:
        """As ``Locks.release``."""
        self._log.unlocking(name, self._locks.owner)
        return self._locks.release(name)

    def _held(self, name: str, until: float, held: bool) -> bool:
        if held:
            self._log.locked(name, self._locks.owner, until)
        return held


def _marked(options: Mapping[str, Any], token: str) -> dict[str, Any]:
    return {**options, "metadata": {**(options.get("metadata") or {}), METADATA_KEY: token}}


def _in_transaction(options: Mapping[str, Any]) -> bool:
    return options.get("session") is not None or options.get("connection") is not None


def _not_before(options: Mapping[str, Any], job: Job) -> datetime | None:
    if job.existing:
        return None
    run_at, delay = options.get("run_at"), options.get("delay")
    if run_at is not None:
        return datetime.fromisoformat(run_at) if isinstance(run_at, str) else run_at
    if delay is None:
        return None
    return job.created_at + (delay if isinstance(delay, timedelta) else timedelta(seconds=delay))
