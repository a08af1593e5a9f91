"""Geometry of the charts. The templates draw; here is decided where. Nothing touches style."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sloppyjobs.views import DeployView, Stats, StatsBucket
from webui.deploy_marks import Marks, marks

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


class Column(NamedTuple):
    """What a span of time counts in both lanes."""

    start: datetime
    succeeded: int
    failed: int


class Chart(NamedTuple):
    """Throughput above, failures below, over the same time."""

    succeeded: Lane
    failed: Lane
    seconds: int
    width: int
    axis: tuple[datetime, ...]
    marks: Marks = Marks()

    @property
    def columns(self) -> list[Column]:
        """The values of both lanes, oldest first."""
        pairs = zip(self.succeeded.bars, self.failed.bars, strict=True)
        return [Column(good.start, good.value, bad.value) for good, bad in pairs]


def throughput(stats: Stats, deploys: Sequence[DeployView] = ()) -> Chart:
    """The chart of an overview: at most 96 bars, however many buckets there are; deploys are given latest first."""
    each = math.ceil(len(stats.buckets) / MOST_BARS) or 1
    groups = [stats.buckets[start : start + each] for start in range(0, len(stats.buckets), each)]
    starts = [group[0].start for group in groups]
    seconds = stats.bucket_seconds * each
    placed = marks(deploys, starts[0], seconds * len(groups)) if groups else Marks()
    return Chart(
        lane(starts, [_total(group, "succeeded") for group in groups]),
        lane(starts, [_total(group, "failed") for group in groups]),
        seconds,
        max(1, len(groups)),
        tuple(starts[:: _bars_per_label(len(starts), seconds)]),
        placed,
    )


def _bars_per_label(bars: int, seconds: int) -> int:
    """A label for every day where there are several, so that none is left out; else six."""
    day = 86_400 // seconds
    return max(1, day if bars > 2 * day else bars // 6)


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
