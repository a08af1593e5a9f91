"""The settings of a schedule: what is given when it is made, and when it is changed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypedDict

from sloppyjobs.domain.payload import decode
from sloppyjobs.storage.ports.schedules import StoredSchedule


class ScheduleSettings(TypedDict, total=False):
    """What can be set for a schedule. ``queue`` and ``priority`` are the definition's unless they are given."""

    cron: str | None
    every: float | timedelta | None
    at: datetime | str | None
    timezone: str
    misfire: str
    catch_up_limit: int
    queue: str | None
    priority: int | None
    paused: bool


class ScheduleChanges(TypedDict, total=False):
    """What can be changed of a schedule that there is."""

    payload: Any
    cron: str | None
    every: float | timedelta | None
    at: datetime | str | None
    timezone: str
    misfire: str
    catch_up_limit: int
    queue: str | None
    priority: int | None


def edited(known: StoredSchedule, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a schedule with those that are given; another timing takes the place of the one that it has."""
    timings = ("cron", "every", "at")
    kept = ["timezone", "misfire", "catch_up_limit", "queue", "priority", "paused"]
    if not any(given.get(timing) is not None for timing in timings):
        kept += timings
    settings = {name: getattr(known, name) for name in kept}
    return {"name": known.name, "job_name": known.job_name, "payload": decode(known.payload), **settings, **given}
