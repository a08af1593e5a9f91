"""The clock that tests move: it takes what the library takes as instants and durations, and refuses the rest."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sloppyjobs import InvalidOption
from sloppyjobs.testing import FakeClock

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAIVE = NOON.replace(tzinfo=None)


def test_it_stands_still_until_it_is_moved() -> None:
    clock = FakeClock("2026-03-01T13:00:00+01:00")
    assert clock.now() == clock.now() == NOON
    assert clock.advance(90) == NOON + timedelta(seconds=90)
    assert clock.advance(timedelta(microseconds=-1)) == NOON + timedelta(seconds=90, microseconds=-1)
    clock.set("2026-03-01T12:00:00Z")
    assert clock.now() == NOON


@pytest.mark.parametrize("instant", ["tomorrow", "", 5, None, NAIVE, "2026-03-01T12:00:00"])
def test_an_instant_that_is_none_is_refused_by_name(instant: Any) -> None:
    with pytest.raises(InvalidOption, match=r"^start="):
        FakeClock(instant)
    clock = FakeClock(NOON)
    with pytest.raises(InvalidOption, match=r"^instant="):
        clock.set(instant)
    assert clock.now() == NOON


@pytest.mark.parametrize("by", ["1", None, float("nan"), True])
def test_a_step_that_is_no_duration_is_refused_by_name(by: Any) -> None:
    with pytest.raises(InvalidOption, match=r"^by="):
        FakeClock(NOON).advance(by)
