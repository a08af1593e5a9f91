"""When clocks change: every zone of today, the strangest of history, and expressions to try there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from hypothesis import strategies as st

MINUTE = timedelta(minutes=1)

# Days that never were, gaps at midnight, half hours, two hours, and changes away from the whole hour.
HISTORIC = [
    ("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC)),
    ("Pacific/Kwajalein", datetime(1993, 8, 21, 12, tzinfo=UTC)),
    ("America/Sao_Paulo", datetime(2018, 11, 4, 3, tzinfo=UTC)),
    ("America/Sao_Paulo", datetime(2018, 2, 18, 2, tzinfo=UTC)),
    ("America/Caracas", datetime(2007, 12, 9, 7, tzinfo=UTC)),
    ("Asia/Pyongyang", datetime(2015, 8, 14, 15, tzinfo=UTC)),
    ("Asia/Pyongyang", datetime(2018, 5, 4, 15, tzinfo=UTC)),
    ("Asia/Kathmandu", datetime(1985, 12, 31, 18, 30, tzinfo=UTC)),
    ("America/St_Johns", datetime(2010, 11, 7, 2, 31, tzinfo=UTC)),
    ("America/St_Johns", datetime(2010, 3, 14, 3, 31, tzinfo=UTC)),
    ("Antarctica/Casey", datetime(2010, 3, 4, 15, tzinfo=UTC)),
]


def offset(zone: ZoneInfo, instant: datetime) -> timedelta:
    found = instant.astimezone(zone).utcoffset()
    assert found is not None
    return found


@cache
def changes(zone: str) -> tuple[tuple[datetime, timedelta, timedelta], ...]:
    """When the zone changes its offset from 2024 to 2030, from what, and to what."""
    tz, found = ZoneInfo(zone), []
    day = datetime(2024, 1, 1, tzinfo=UTC)
    while day.year <= 2030:
        low, high = day, day + timedelta(days=7)
        if offset(tz, low) != offset(tz, high):
            while high - low > MINUTE:
                middle = low + (high - low) // 2
                middle -= timedelta(seconds=middle.second, microseconds=middle.microsecond)
                low, high = (low, middle) if offset(tz, middle) == offset(tz, high) else (middle, high)
            found.append((high, offset(tz, low), offset(tz, high)))
        day += timedelta(days=7)
    return tuple(found)


@cache
def changing_zones() -> list[str]:
    """One zone for each distinct list of changes."""
    names = sorted(name for name in available_timezones() if "/" in name and not name.startswith("Etc/"))
    return sorted({changes(name): name for name in reversed(names) if changes(name)}.values())


def every_change() -> list[tuple[str, datetime]]:
    return [(zone, instant) for zone in changing_zones() for instant, _, _ in changes(zone)]


@cache
def windows() -> list[tuple[str, datetime]]:
    """Every way in which clocks change: zone and instant, one for each local time, old and new offset."""
    distinct = {}
    for zone in changing_zones():
        for instant, before, behind in changes(zone):
            distinct.setdefault(((instant + before).time(), before, behind), (zone, instant))
    return [*distinct.values(), *HISTORIC]


numbers = {
    "minute": st.integers(0, 59),
    "hour": st.integers(0, 23),
    "day": st.integers(1, 31),
    "month": st.integers(1, 12),
    "weekday": st.integers(0, 7),
}


@st.composite
def cron_fields(draw: st.DrawFn, name: str) -> str:
    def item() -> str:
        kind = draw(st.sampled_from(["*", "*/n", "a", "a-b", "a-b/n"]))
        ends = sorted([draw(numbers[name]), draw(numbers[name])])
        step = draw(st.integers(1, 6))
        spelled = {"*": "*", "*/n": f"*/{step}", "a": f"{ends[0]}", "a-b": f"{ends[0]}-{ends[1]}"}
        return spelled.get(kind, f"{ends[0]}-{ends[1]}/{step}")

    return ",".join(item() for _ in range(draw(st.integers(1, 3))))


def often_free(name: str) -> st.SearchStrategy[str]:
    return st.one_of(st.just("*"), cron_fields(name))


expressions = st.tuples(
    cron_fields("minute"), cron_fields("hour"), often_free("day"), often_free("month"), often_free("weekday")
).map(" ".join)
