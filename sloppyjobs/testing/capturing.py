"""``capture``: what an application enqueues, recorded, and assertions that say what was enqueued instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from sloppyjobs import errors
from sloppyjobs.domain import payload as payloads
from sloppyjobs.domain.model import Job, NewJob
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.internals import internals
from sloppyjobs.jobs import Jobs

SHOWN_JOBS = 20
SHOWN_LENGTH = 200


class _Anything:
    def __repr__(self) -> str:
        return "anything"


ANYTHING: Any = _Anything()
"""Stands for every payload, None included."""


class Captured(NamedTuple):
    """An enqueued job and its payload, as JSON has it."""

    job: Job
    payload: Any


class Capture:
    """What has been enqueued since the block began, in order."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._captured: list[Captured] = []

    @property
    def jobs(self) -> list[Job]:
        """Every job that was enqueued, as it was answered."""
        return [captured.job for captured in self._captured]

    def payloads(self, name: str) -> list[Any]:
        """The payloads of the jobs of that name, as JSON has them."""
        return [captured.payload for captured in self._captured if captured.job.name == name]

    def assert_enqueued(
        self, name: str, *, payload: Any = ANYTHING, queue: str | None = None, times: int | None = None
    ) -> list[Job]:
        """Fail unless such a job was enqueued, ``times`` times or at least once; returns the jobs that match.

        A ``payload`` may be what was passed to ``enqueue`` or its JSON form: typed payloads are compared as their
        type, so that defaults which were left out make no difference.
        """
        __tracebackhide__ = True
        found = [one.job for one in self._captured if self._matches(one, name, payload, queue)]
        if (len(found) != times) if times is not None else not found:
            raise AssertionError(self._complaint(_described(name, payload, queue), len(found), times))
        return found

    def assert_not_enqueued(self, name: str, *, payload: Any = ANYTHING, queue: str | None = None) -> None:
        """Fail if such a job was enqueued."""
        __tracebackhide__ = True
        self.assert_enqueued(name, payload=payload, queue=queue, times=0)

    def record(self, new: NewJob, job: Job, committed: bool) -> None:  # noqa: ARG002 - an observer's shape
        """Take a job down; one whose idempotency key was taken has not been enqueued."""
        if not job.existing:
            self._captured.append(Captured(job, payloads.decode(new.payload)))

    def _matches(self, captured: Captured, name: str, payload: Any, queue: str | None) -> bool:
        if captured.job.name != name or (queue is not None and captured.job.queue != queue):
            return False
        return payload is ANYTHING or self._as_type(name, payload) == self._as_type(name, captured.payload)

    def _as_type(self, name: str, value: Any) -> Any:
        definition = self._definitions.get(name)
        schema = None if definition is None else definition.input
        try:
            plain = payloads.decode(payloads.encode(payloads.validate_input(value, schema)))
            return payloads.convert(plain, schema)
        except errors.InvalidPayload:
            # It could not have been enqueued, so it equals nothing that was.
            return object()

    def _complaint(self, wanted: str, found: int, times: int | None) -> str:
        expected = "at least once" if times is None else "never" if times == 0 else f"{times} times"
        lines = [_line(captured) for captured in self._captured[:SHOWN_JOBS]]
        if len(self._captured) > SHOWN_JOBS:
            lines.append(f"  … and {len(self._captured) - SHOWN_JOBS} more")
        listed = "\n".join(lines) or "  nothing"
        return (
            f"expected {wanted} to be enqueued {expected}, but it was enqueued {found} times. Enqueued were:\n{listed}"
        )


@contextmanager
def capture(jobs: Jobs) -> Iterator[Capture]:
    """Record what is enqueued through this ``Jobs`` inside the block, by every thread.

    Jobs are written all the same. What is enqueued in a transaction of the caller is recorded at once, even if the
    transaction is rolled back later. So are jobs that a schedule enqueues when it is ticked or triggered here.
    """
    captured = Capture(jobs.definitions)
    internals(jobs).observers.append(captured.record)
    try:
        yield captured
    finally:
        internals(jobs).observers.remove(captured.record)


def _described(name: str, payload: Any, queue: str | None) -> str:
    with_payload = "" if payload is ANYTHING else f" with payload {_cut(repr(payload))}"
    return f"{name!r}{with_payload}" + ("" if queue is None else f" on queue {queue!r}")


def _line(captured: Captured) -> str:
    return f"  {captured.job.name!r} on queue {captured.job.queue!r} with payload {_cut(repr(captured.payload))}"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_LENGTH else text[:SHOWN_LENGTH] + "…"
