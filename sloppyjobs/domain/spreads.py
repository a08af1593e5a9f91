"""How measured seconds are spread: percentiles, a histogram with readable bounds, and both over time.

Pure: no I/O, no clock.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

MOST_BINS = 12
"""Bars of a histogram; where the values would need more, the first bar takes all that are short."""
MOST_STEPS = 24
"""Spans of time into which measurements are divided, at most."""
_BOUNDS = (
    *(digit / 1_000 for size in (1, 10, 100, 1_000) for digit in (size, 2 * size, 5 * size)),
    *(10.0, 20.0, 60.0, 120.0, 300.0, 600.0, 1_200.0, 3_600.0, 7_200.0, 18_000.0, 36_000.0),
    *(86_400.0 * days * size for size in (1, 10, 100, 1_000) for days in (1, 2, 5)),
)
"""From a millisecond up, each about twice the one before: round seconds, minutes, hours and days."""
_STEPS = tuple(
    timedelta(seconds=seconds)
    for seconds in (10, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400)
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Half of all values are at most ``p50``, 95 % at most ``p95``, 99 % at most ``p99``; None where there are none."""

    values: int = 0
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    longest: float | None = None


class Bin(msgspec.Struct, frozen=True):
    """How many values are at least ``least`` and less than ``most``."""

    least: float
    most: float
    values: int


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest of the values, which are in order, that at least this share (0 to 1) of them does not exceed."""
    return ordered[max(0, math.ceil(round(share * len(ordered), 9)) - 1)]


def spread(values: Sequence[float]) -> Spread:
    """The percentiles of values in any order."""
    ordered = sorted(values)
    if not ordered:
        return Spread()
    return Spread(
        values=len(ordered),
        p50=percentile(ordered, 0.5),
        p95=percentile(ordered, 0.95),
        p99=percentile(ordered, 0.99),
        longest=ordered[-1],
    )


def histogram(values: Sequence[float], most: int = MOST_BINS) -> tuple[Bin, ...]:
    """Bins without gaps from the shortest to the longest value, at most so many; every value is in one of them."""
    if not values:
        return ()
    places = [bisect_right(_BOUNDS, value) for value in values]
    last = max(places)
    first = max(min(places), last - most + 1)
    counts = [0] * (last - first + 1)
    for place in places:
        counts[max(place, first) - first] += 1
    lumped = min(places) < first
    return tuple(
        Bin(0.0 if lumped and number == 0 else _bound(first + number - 1), _bound(first + number), count)
        for number, count in enumerate(counts)
    )


def _bound(place: int) -> float:
    if place < 0:
        return 0.0
    return _BOUNDS[place] if place < len(_BOUNDS) else math.inf


def steps_between(first: datetime, last: datetime, most: int = MOST_STEPS) -> tuple[timedelta, tuple[datetime, ...]]:
    """A round length of time, and when each span so long begins that together cover both instants: at most so many."""
    step = next((one for one in _STEPS if _floor(last, one) - _floor(first, one) < one * most), None)
    if step is None:
        step = timedelta(days=max(1, math.ceil((last - first) / timedelta(days=1) / (most - 1))))
    start, number = _floor(first, step), (_floor(last, step) - _floor(first, step)) // step + 1
    return step, tuple(start + step * place for place in range(number))


def _floor(moment: datetime, step: timedelta) -> datetime:
    return moment - (moment - _EPOCH) % step
