"""Geometry of the charts. The templates draw; here is decided where. Nothing touches style."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sloppyjobs.states import FINISHED
from sloppyjobs.views import EventView, Stats, StatsBucket

MOST_BARS = 96


class Bar(NamedTuple):
    """One mark: what it counts, and where it stands in a lane 100 high."""

    start: datetime
    value: int
    y: float
    height: float


class Lane(NamedTuple):
    """Bars with a scale of their own, which starts at zero and ends at a round number."""

    bars: tuple[Bar, ...]
    top: int
    total: int
    peak: Bar | None

    @property
    def ticks(self) -> list[int]:
        """Labels of the grid lines, from the top."""
        parts = 2 if self.top % 3 else 3
        return [round(self.top * part / parts) for part in range(parts, -1, -1)]


class Chart(NamedTuple):
    """Throughput above, failures below, over the same time."""

    succeeded: Lane
    failed: Lane
    seconds: int
    width: int
    axis: tuple[datetime, ...]


def throughput(stats: Stats) -> Chart:
    """The chart of an overview: at most 96 bars, however many buckets there are."""
    each = math.ceil(len(stats.buckets) / MOST_BARS) or 1
    groups = [stats.buckets[start : start + each] for start in range(0, len(stats.buckets), each)]
    starts = [group[0].start for group in groups]
    steps = max(1, len(starts) // 6)
    return Chart(
        lane(starts, [_total(group, "succeeded") for group in groups]),
        lane(starts, [_total(group, "failed") for group in groups]),
        stats.bucket_seconds * each,
        max(1, len(groups)),
        tuple(starts[::steps]),
    )


def lane(starts: Sequence[datetime], values: Sequence[int]) -> Lane:
    """Bars on a round scale."""
    top = round_up(max(values, default=0))
    bars = tuple(
        Bar(start, value, round(100 - 100 * value / top, 2), round(100 * value / top, 2))
        for start, value in zip(starts, values, strict=True)
    )
    peak = max(bars, key=lambda bar: bar.value, default=None)
    return Lane(bars, top, sum(values), peak if peak is not None and peak.value else None)


def round_up(value: int) -> int:
    """The next of 2, 3, 4, 6, 8, 9, 10 and their multiples by ten."""
    size: int = 10 ** max(0, len(str(value)) - 1)
    steps = (step * size for step in (2, 3, 4, 6, 8, 9))
    return next((step for step in steps if step >= value), 10 * size)


def _total(buckets: Sequence[StatsBucket], field: str) -> int:
    return sum(getattr(bucket, field) for bucket in buckets)


class Segment(NamedTuple):
    """How long a job was in one state."""

    status: str
    x: float
    width: float
    seconds: float


def segments(events: Sequence[EventView], until: datetime) -> list[Segment]:
    """A job's life as a bar 300 wide, from its first event; states that took no time are left out."""
    if len(events) < 2 and (not events or events[0].to_status in FINISHED):
        return []
    start = events[0].created_at
    whole = max((until - start).total_seconds(), (events[-1].created_at - start).total_seconds())
    if whole <= 0:
        return []
    found = []
    ends = [*(event.created_at for event in events[1:]), until]
    for event, end in zip(events, ends, strict=True):
        seconds = (end - event.created_at).total_seconds()
        if seconds > 0 and event.to_status not in FINISHED:
            x = 300 * (event.created_at - start).total_seconds() / whole
            found.append(Segment(event.to_status.value, round(x, 2), max(0.4, 300 * seconds / whole - 0.6), seconds))
    return found
