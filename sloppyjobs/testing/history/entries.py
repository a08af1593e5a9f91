"""What clients and handlers write to the log: one frozen value per line.

``at`` is the machine's monotonic clock, which all of its processes share. It says how long something took, and orders
what the position in the log does not.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec


class _Entry(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    at: float
    pid: int


class Enqueuing(_Entry, frozen=True, kw_only=True, tag="enqueuing"):
    """A client is about to enqueue a job; ``token`` is in the job's metadata, whatever becomes of the answer."""

    token: str
    name: str


class Enqueued(_Entry, frozen=True, kw_only=True, tag="enqueued"):
    """The enqueue was answered. Without ``committed`` it is part of a transaction whose end is not known yet."""

    token: str
    job_id: str
    existing: bool = False
    committed: bool = True
    idempotency_key: str | None = None
    not_before: datetime | None = None
    """The run time that the client asked for."""


class EnqueueFailed(_Entry, frozen=True, kw_only=True, tag="enqueue_failed"):
    """The enqueue raised; the job is there once or not at all."""

    token: str
    error: str


class Committed(_Entry, frozen=True, kw_only=True, tag="committed"):
    """The transaction in which the job was enqueued is committed."""

    job_id: str


class RolledBack(_Entry, frozen=True, kw_only=True, tag="rolled_back"):
    """The transaction in which the job was enqueued is rolled back."""

    job_id: str


class Started(_Entry, frozen=True, kw_only=True, tag="started"):
    """A handler is about to run."""

    job_id: str
    attempt: int


class Ended(_Entry, frozen=True, kw_only=True, tag="ended"):
    """A handler has ended."""

    job_id: str
    attempt: int
    how: Literal["returned", "raised"]


class StepRan(_Entry, frozen=True, kw_only=True, tag="step_ran"):
    """The function of a step is about to run."""

    job_id: str
    attempt: int
    name: str


class StepKept(_Entry, frozen=True, kw_only=True, tag="step_kept"):
    """A handler was told that its step is done, in this attempt or in an earlier one."""

    job_id: str
    attempt: int
    name: str


class Settled(_Entry, frozen=True, kw_only=True, tag="settled"):
    """A worker written by others has settled an attempt, and was told whether it was accepted."""

    job_id: str
    attempt: int
    accepted: bool


class Scheduled(_Entry, frozen=True, kw_only=True, tag="scheduled"):
    """A schedule was registered like this, and its cursor stood here then."""

    name: str
    schedule_id: str
    timetable: str
    next_run_at: datetime


class Locked(_Entry, frozen=True, kw_only=True, tag="locked"):
    """A lock was acquired or extended; it is held from ``at`` at the latest, and to ``until`` at least."""

    name: str
    owner: str
    until: float


class Unlocking(_Entry, frozen=True, kw_only=True, tag="unlocking"):
    """The owner of a lock is about to release it, or has lost it."""

    name: str
    owner: str


class Fault(_Entry, frozen=True, kw_only=True, tag="fault"):
    """Something was broken on purpose."""

    what: str


class Healed(_Entry, frozen=True, kw_only=True, tag="healed"):
    """It was mended."""

    what: str


Entry = (
    Enqueuing
    | Enqueued
    | EnqueueFailed
    | Committed
    | RolledBack
    | Started
    | Ended
    | StepRan
    | StepKept
    | Settled
    | Scheduled
    | Locked
    | Unlocking
    | Fault
    | Healed
)
