"""Geometry of the charts of percentiles and histograms. The templates draw; here is decided where."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sloppyjobs.domain.spreads import Bin, Spread
from sloppyjobs.views import DeployView, RunSample
from webui.charts import round_up
from webui.deploy_marks import Marks, marks
from webui.times import duration

PERCENTILES = ("p50", "p95", "p99")
_LABELS = 4
"""Labels that are written under a chart, at most, besides the last."""
_TOPS = (60, 120, 240, 360, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400)
"""Seconds whose half is a round number of minutes or hours, too."""


class Point(NamedTuple):
    """One span of time, with what is to be read of it."""

    start: datetime
    spread: Spread


class Curves(NamedTuple):
    """Percentiles over time: a path for each in a field 100 high, on a scale of seconds that starts at zero."""

    points: tuple[Point, ...]
    paths: dict[str, str]
    top: float
    seconds: int
    axis: tuple[tuple[float, datetime, str], ...]
    """Places in percent, instants, and which part of a label stands there."""
    marks: Marks = Marks()

    @property
    def ticks(self) -> tuple[float, ...]:
        """Labels of the grid lines, from the top."""
        return self.top, self.top / 2, 0.0


class BinBar(NamedTuple):
    """A bar of a histogram: which seconds, how many, and where it stands in a field 100 high."""

    words: str
    value: int
    y: float
    height: float


class Histogram(NamedTuple):
    """Bars, the scale of their numbers, and labels with their places in percent."""

    bars: tuple[BinBar, ...]
    top: int
    labels: tuple[tuple[float, str, str], ...]
    """Place, words, and which part of them stands there: ``start``, ``middle`` or ``end``."""

    @property
    def most(self) -> BinBar:
        """The highest bar."""
        return max(self.bars, key=lambda bar: bar.value)


class Measure(NamedTuple):
    """Run time or waiting time: its words, percentiles over time and a histogram."""

    id: str
    title: str
    about: str
    spread: Spread
    curves: Curves
    histogram: Histogram | None


def measured(sample: RunSample, deploys: Sequence[DeployView]) -> list[Measure]:
    """Run time and waiting time of a sample."""
    starts, seconds = [one.start for one in sample.steps], sample.step_seconds
    return [
        Measure("run", "Run time", "How long runs take", sample.run,
                curves(starts, [one.run for one in sample.steps], seconds, deploys), histogram(sample.run_bins)),
        Measure("wait", "Waiting time", "How long runs wait", sample.wait,
                curves(starts, [one.wait for one in sample.steps], seconds, deploys), histogram(sample.wait_bins)),
    ]  # fmt: skip


def sampled(sample: RunSample) -> str:
    """``of the latest 500 runs``."""
    if sample.runs == 1:
        return "of the latest run" if sample.partial else "of its only run"
    return f"of the latest {sample.runs:,} runs" if sample.partial else f"of all {sample.runs:,} runs"


def curves(
    starts: Sequence[datetime], spreads: Sequence[Spread], step_seconds: int, deploys: Sequence[DeployView] = ()
) -> Curves:
    """The percentiles as steps, with gaps where nothing was measured; deploys are given latest first."""
    top = top_seconds(max((one.p99 for one in spreads if one.p99 is not None), default=0.0))
    points = tuple(map(Point._make, zip(starts, spreads, strict=True)))
    paths = {name: _path([getattr(one, name) for one in spreads], top) for name in PERCENTILES}
    axis = tuple((100 * place / len(starts), starts[place], _anchor(place)) for place in _labelled(len(starts)))
    placed = marks(deploys, starts[0], step_seconds * len(starts)) if starts else Marks()
    return Curves(points, paths, top, step_seconds, axis, placed)


def _path(values: Sequence[float | None], top: float) -> str:
    drawn, before = [], False
    for place, value in enumerate(values):
        if value is not None:
            y = f"{100 - 100 * value / top:.2f}"
            drawn.append(f"V{y}h1" if before else f"M{place} {y}h1")
        before = value is not None
    return "".join(drawn)


def top_seconds(value: float) -> float:
    """The next round number of seconds, minutes or hours whose half is round as well; two milliseconds at least."""
    small = (digit * 10.0**power for power in range(-3, 2) for digit in (2, 4, 6, 8, 10))
    days = (86_400.0 * round_up(int(value // 86_400) + 1),)
    return next(top for top in (*(one for one in small if one <= 40), *_TOPS, *days) if top >= value)


def histogram(bins: Sequence[Bin]) -> Histogram | None:
    """The bars, or None where nothing was measured."""
    if not bins:
        return None
    top = round_up(max(one.values for one in bins))
    bars = tuple(
        BinBar(words(one), one.values, round(100 - 100 * one.values / top, 2), round(100 * one.values / top, 2))
        for one in bins
    )
    labels = [(100 * place / len(bins), duration(bins[place].least), _anchor(place)) for place in _labelled(len(bins))]
    return Histogram(bars, top, (*labels, (100.0, duration(bins[-1].most), "end")))


def _labelled(number: int) -> list[int]:
    """Which of so many places have a label: the first, and few others that leave room for one at the end."""
    each = max(1, -(-number // _LABELS))
    return [place for place in range(0, number, each) if place == 0 or number - place >= each]


def _anchor(place: int) -> str:
    return "start" if place == 0 else "middle"


def words(one: Bin) -> str:
    """``200 ms to 500 ms``."""
    return f"{duration(one.least)} to {duration(one.most)}" if one.least else f"less than {duration(one.most)}"
