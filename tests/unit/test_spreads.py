"""Percentiles, histograms and spans of time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sloppyjobs.domain.spreads import Spread, histogram, percentile, spread, steps_between

SECONDS = st.floats(min_value=0, max_value=1e7, allow_nan=False)
START = datetime(2000, 1, 1, tzinfo=UTC)
MOMENTS = st.timedeltas(timedelta(0), timedelta(days=30_000)).map(lambda later: START + later)


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1), (0.5, 50), (0.95, 95), (0.99, 99), (1.0, 100)])
def test_a_percentile_is_one_of_the_values(share: float, expected: float) -> None:
    assert percentile([float(number) for number in range(1, 101)], share) == expected


def test_nothing_has_no_percentiles() -> None:
    assert spread([]) == Spread()


@given(st.lists(SECONDS, min_size=1))
def test_percentiles_are_values_in_order_and_enough_values_are_below(values: list[float]) -> None:
    found = spread(values)
    for share, value in ((0.5, found.p50), (0.95, found.p95), (0.99, found.p99)):
        assert value in values
        assert sum(one <= value for one in values) >= share * len(values) - 1e-6
        assert sum(one < value for one in values) < share * len(values) + 1e-6
    assert [found.p50, found.p95, found.p99, found.longest] == sorted([found.p50, found.p95, found.p99, max(values)])
    assert found.values == len(values)


@given(st.lists(SECONDS), st.integers(1, 20))
def test_every_value_is_in_one_bin_and_bins_have_no_gaps(values: list[float], most: int) -> None:
    bins = histogram(values, most)
    assert len(bins) <= most
    assert sum(one.values for one in bins) == len(values)
    for one in bins:
        assert one.values == sum(one.least <= value < one.most for value in values)
    assert all(before.most == after.least for before, after in pairwise(bins))
    assert not bins or bins[-1].values


def test_bins_have_bounds_that_people_read() -> None:
    bins = histogram([0.0, 0.3, 0.7, 1.5])
    assert [(one.least, one.most) for one in bins[-3:]] == [(0.2, 0.5), (0.5, 1.0), (1.0, 2.0)]
    assert (bins[0].least, bins[0].values) == (0.0, 1)


@given(MOMENTS, st.timedeltas(timedelta(0), timedelta(days=20_000)), st.integers(2, 48))
def test_spans_of_time_cover_what_was_measured(first: datetime, length: timedelta, most: int) -> None:
    last = first + length
    step, starts = steps_between(first, last, most)
    assert 1 <= len(starts) <= most
    assert starts[0] <= first
    assert starts[-1] <= last < starts[-1] + step
    assert all(after - before == step for before, after in pairwise(starts))
