"""The log: a file outside of the database that clients and handlers append to.

Each entry is one ``write`` to a file that is opened for appending. So any number of processes may write at once, their
entries have one order, and what was written is there when the process is killed. It is not synced to the disk: the log
is for faults of processes and databases, not of the machine that the test runs on.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sloppyjobs.domain.model import Job
from sloppyjobs.schedules.occurrences import Recurring
from sloppyjobs.storage.ports.schedules import timetable
from sloppyjobs.testing.history import entries
from sloppyjobs.testing.history.entries import Entry

E = TypeVar("E", bound=Entry)

METADATA_KEY = "history"
"""The key of a job's metadata under which a client's token is."""

_decoder = msgspec.json.Decoder(Entry)


class Log:
    """An append-only log of what clients asked for and what handlers did. Threads and processes may share its path."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    # Clients

    def enqueuing(self, name: str) -> str:
        """Say that a job is about to be enqueued; its metadata must have the returned token, as ``METADATA_KEY``."""
        token = uuid.uuid4().hex
        self._append(entries.Enqueuing, token=token, name=name)
        return token

    def enqueued(
        self,
        token: str,
        job: Job,
        *,
        committed: bool = True,
        not_before: datetime | None = None,
        key: str | None = None,
    ) -> None:
        """Say that an enqueue returned this job. ``committed``: outside of a transaction of the caller's."""
        self._append(
            entries.Enqueued,
            token=token,
            job_id=job.id,
            existing=job.existing,
            committed=committed,
            idempotency_key=key,
            not_before=not_before,
        )

    def enqueue_failed(self, token: str, error: BaseException) -> None:
        """Say that an enqueue raised."""
        self._append(entries.EnqueueFailed, token=token, error=type(error).__name__)

    def committed(self, job: Job) -> None:
        """Say that the transaction in which the job was enqueued is committed."""
        self._append(entries.Committed, job_id=job.id)

    def rolled_back(self, job: Job) -> None:
        """Say that the transaction in which the job was enqueued is rolled back."""
        self._append(entries.RolledBack, job_id=job.id)

    def scheduled(self, schedule: Recurring) -> None:
        """Say that a schedule was registered, as it was returned."""
        if schedule.next_run_at is not None:
            self._append(
                entries.Scheduled,
                name=schedule.name,
                schedule_id=schedule.id,
                timetable=str(timetable(schedule)),
                next_run_at=schedule.next_run_at,
            )

    def locked(self, name: str, owner: str, until: float) -> None:
        """Say that a lock is held at least until this time of ``time.monotonic``."""
        self._append(entries.Locked, name=name, owner=owner, until=until)

    def unlocking(self, name: str, owner: str) -> None:
        """Say that a lock is about to be released."""
        self._append(entries.Unlocking, name=name, owner=owner)

    # Handlers and workers

    def started(self, job_id: str, attempt: int) -> None:
        """Say that a handler is about to run."""
        self._append(entries.Started, job_id=job_id, attempt=attempt)

    def returned(self, job_id: str, attempt: int) -> None:
        """Say that a handler has returned."""
        self._append(entries.Ended, job_id=job_id, attempt=attempt, how="returned")

    def raised(self, job_id: str, attempt: int) -> None:
        """Say that a handler has raised."""
        self._append(entries.Ended, job_id=job_id, attempt=attempt, how="raised")

    def step_ran(self, job_id: str, attempt: int, name: str) -> None:
        """Say that the function of a step is about to run."""
        self._append(entries.StepRan, job_id=job_id, attempt=attempt, name=name)

    def step_kept(self, job_id: str, attempt: int, name: str) -> None:
        """Say that a handler goes on after a step."""
        self._append(entries.StepKept, job_id=job_id, attempt=attempt, name=name)

    def settled(self, job_id: str, attempt: int, accepted: bool) -> None:
        """Say that a settlement was accepted, or was stale."""
        self._append(entries.Settled, job_id=job_id, attempt=attempt, accepted=accepted)

    # Whoever breaks things

    @contextmanager
    def fault(self, what: str) -> Iterator[None]:
        """Say that something is broken in this block, and mended at its end."""
        self._append(entries.Fault, what=what)
        yield
        self._append(entries.Healed, what=what)

    # Reading

    def entries(self) -> list[Entry]:
        """What was written so far, in order."""
        return list(self._read())

    def of_kind(self, kind: type[E]) -> list[E]:
        """The entries of one kind, in order."""
        return [entry for entry in self._read() if isinstance(entry, kind)]

    def _read(self) -> Iterator[Entry]:
        with self.path.open("rb") as lines:
            for line in lines:
                if line != b"\n":
                    try:
                        yield _decoder.decode(line)
                    except msgspec.MsgspecError:
                        # Its writer was killed inside of the write and has done nothing since: it never said so.
                        continue

    def _append(self, kind: type[E], **fields: Any) -> None:
        entry = kind(at=time.monotonic(), pid=os.getpid(), **fields)
        # The newline in front ends a line whose writer was killed inside of the write.
        line = b"\n" + msgspec.json.encode(entry) + b"\n"
        if os.write(self._file, line) != len(line):
            raise OSError(f"{self.path}: the entry was not written whole; is the disk full?")
