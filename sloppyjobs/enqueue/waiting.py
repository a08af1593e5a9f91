"""Waiting for a job to finish: how long, and how often to poll."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, TypeVar, overload

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.states import FINISHED
from sloppyjobs.enqueue.option_types import Duration

FIRST_DELAY = 0.005
LONGEST_DELAY = 0.25

R = TypeVar("R")


def id_of(job: Job | str) -> str:
    """The id of the job that is waited for."""
    return job.id if isinstance(job, Job) else job


class WaitBackoff:
    """The delays between polls of one wait, which grow until its timeout."""

    def __init__(self, timeout: float | timedelta) -> None:
        self._limit = options.seconds("timeout", timeout)
        self._deadline = time.monotonic() + self._limit
        self._delay = FIRST_DELAY

    def next_delay(self, job: Job) -> float | None:
        """Seconds until the next poll; None when the job has finished. Raises ``WaitTimeout`` when the time is over."""
        if job.status in FINISHED:
            return None
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise errors.WaitTimeout(f"job {job.id} is {job.status} after {self._limit:g} s; it goes on")
        delay = min(self._delay, left)
        self._delay = min(self._delay * 1.5, LONGEST_DELAY)
        return delay


class Waiting:
    """What ``Jobs`` offers to wait for the end of a job."""

    def get(self, job_id: str) -> Job:
        """The job with this id."""
        raise NotImplementedError

    @overload
    def wait(self, job: Job[R], /, timeout: Duration = 10) -> Job[R]: ...
    @overload
    def wait(self, job_id: str, timeout: Duration = 10) -> Job: ...

    def wait(self, job_id: Job[Any] | str, timeout: Duration = 10) -> Job[Any]:
        """Block until the job, or the one with this id, has finished, and return it as it is then.

        ``WaitTimeout`` when it has not finished by then. Its ``result`` is None unless it has succeeded.
        """
        backoff, wanted = WaitBackoff(timeout), id_of(job_id)
        while (delay := backoff.next_delay(job := self.get(wanted))) is not None:
            time.sleep(delay)
        return job
