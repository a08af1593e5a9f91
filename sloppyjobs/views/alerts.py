"""Rules for alerts, and what they found."""

from __future__ import annotations

from datetime import datetime

import msgspec


class AlertView(msgspec.Struct, frozen=True, kw_only=True):
    """An alert that was raised: what was told to whom, and whether that worked. Redacted."""

    rule: str
    on: str
    cause: str
    text: str
    created_at: datetime
    window_start: datetime
    window: float
    target: str
    status: str
    """``pending``, ``retrying``, ``told`` or ``failed``; or ``muted``: its rule was, and nobody is told."""
    tries: int = 0
    told_at: datetime | None = None
    error: str | None = None
    """Why it was not told, so far."""
    job_id: str | None
    """The job that delivers it; None where it was muted."""
    count: int = 0
    since: datetime | None = None
    queue: str | None = None
    name: str | None = None
    worker: str | None = None
    example_id: str | None = None
    test: bool = False


class AlertRuleView(msgspec.Struct, frozen=True, kw_only=True):
    """A rule: what it watches, whom it tells, and whether code declares it still."""

    name: str
    on: str
    queue: str | None
    job_name: str | None
    after: int
    window: float
    longer_than: float | None
    target: str
    declared: bool
    """Whether code here declares it, or a worker's has done so lately."""
    seen_at: datetime | None
    last_alert_at: datetime | None
    open: bool
    """Whether it has found something in the present window."""
    when: str
    """What it watches, in words."""
    muted: bool = False
    """Whether it writes down what it finds, and tells nobody."""
    muted_until: datetime | None = None
    """Until when; None for good."""
    muted_by: str | None = None
    mute_reason: str | None = None
