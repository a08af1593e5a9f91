"""Cron expressions in a time zone: what is accepted, and which instants an expression names.

Pure: no clock and no storage. Instants are aware datetimes, returned in UTC.

**Cron** has the five classic fields: minute, hour, day of month, month, day of week (0 and 7 are Sunday). A
field is ``*``, a number, a range ``a-b``, a step ``*/n`` or ``a-b/n``, or a list of these; months and days of
the week have names (JAN, MON). Where both days are restricted (anything but ``*``), either one is enough.
``@hourly``, ``@daily``, ``@midnight``, ``@weekly``, ``@monthly``, ``@yearly`` and ``@annually`` are short for
five fields. Nothing else is accepted: no seconds, no years, none of ``? L W # H R``, no backward range.

**When the clocks change**, what happens depends on the expression:

1. A *fixed* expression, one whose minute and hour fields hold neither ``*`` nor ``/``, names times of the day:
   ``30 2 * * *``, ``0,30 2 * * *``, ``0-30 2 * * *``, ``0 1-3 * * *``. A local time that is skipped fires at the
   first instant after the gap; several that are skipped together, or that meet a time named anyway, are one
   occurrence. A local time that comes twice fires once, the first time.
2. Any other expression follows real time: ``*/15 * * * *``, ``30 * * * *``, ``0 */2 * * *``, ``*/30 2 * * *``. A
   local time that is skipped does not fire, and one that comes twice fires twice.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import dropwhile, groupby, tee
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from sloppyjobs.domain import options
from sloppyjobs.errors import InvalidSchedule

YEARS = range(1900, 9999)  # zone arithmetic overflows at either end of what a datetime can hold
_MINUTE = timedelta(minutes=1)
_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTH_NAMES = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"
_MONTHS = {name: n for n, name in enumerate(_MONTH_NAMES.split(), start=1)}
_WEEKDAY_NAMES = "SUN MON TUE WED THU FRI SAT"
_WEEKDAYS = {name: n for n, name in enumerate(_WEEKDAY_NAMES.split())}
_FIELDS: dict[str, tuple[int, int, dict[str, int]]] = {
    "minute": (0, 59, {}),
    "hour": (0, 23, {}),
    "day of month": (1, 31, {}),
    "month": (1, 12, _MONTHS),
    "day of week": (0, 7, _WEEKDAYS),
}
_LONGEST_MONTH = {n: 29 if n == 2 else 30 if n in (4, 6, 9, 11) else 31 for n in range(1, 13)}
_ITEM = re.compile(r"(?:\*|(?P<low>[0-9]{1,2}|[A-Z]{3})(?:-(?P<high>[0-9]{1,2}|[A-Z]{3}))?)(?:/(?P<step>[0-9]{1,2}))?")
# Files beside the zones that load as a zone: the host's own setting, and copies that count leap seconds.
_NOT_A_ZONE = re.compile(r"localtime|posixrules|(posix|right)/.*")


@dataclass(frozen=True, slots=True)
class Timetable:
    """A cron expression in a zone. croniter walks the naive calendar; what the clocks do is decided here.

    Fold 0 maps local times to instants by the first pass of an overlap, fold 1 by the second. Neither mapping
    ever goes backwards, so merging the mapped walks gives every occurrence in order.
    """

    calendar: str
    zone: ZoneInfo
    fixed: bool
    """Whether it names times of the day, and does not follow real time."""

    @classmethod
    def of(cls, cron: str | None, timezone: str) -> Timetable:
        """The timetable of an expression; ``InvalidSchedule`` when it, or the zone, cannot be read."""
        fields = five_fields(cron)
        fixed = not re.search(r"[*/]", fields[0] + fields[1])
        return cls(_calendar(fields), find_zone(timezone), fixed)

    def following(self, instant: datetime) -> Iterator[datetime]:
        """Occurrences strictly after the instant, oldest first."""
        walker = _walker(self.calendar, min(self._readings(instant)))
        found = self._occurrences(walker.get_next, newest_first=False)
        return dropwhile(lambda occurrence: occurrence <= instant, found)

    def preceding(self, instant: datetime) -> Iterator[datetime]:
        """Occurrences at or before the instant, newest first."""
        walker = _walker(self.calendar, max(self._readings(instant)) + _MINUTE)
        found = self._occurrences(walker.get_prev, newest_first=True)
        return dropwhile(lambda occurrence: occurrence > instant, found)

    def _readings(self, instant: datetime) -> list[datetime]:
        """What clocks on both sides of an overlap show: a walk from the outermost misses neither pass."""
        local = instant.astimezone(self.zone)
        offsets = [_offset(local, fold) for fold in (0, 1)]
        return [(instant + offset).replace(second=0, microsecond=0, tzinfo=None) for offset in offsets]

    def _occurrences(self, step: Callable[[type[datetime]], datetime], *, newest_first: bool) -> Iterator[datetime]:
        folds = (0,) if self.fixed else (0, 1)
        walks = tee(_walk(step), len(folds))
        mapped = [self._instants(fold, walk) for fold, walk in zip(folds, walks, strict=True)]
        return (occurrence for occurrence, _ in groupby(merge(*mapped, reverse=newest_first)))

    def _instants(self, fold: int, walk: Iterator[datetime]) -> Iterator[datetime]:
        for nominal in walk:
            instant = self._to_utc(fold, nominal)
            if instant is not None:
                yield instant

    def _to_utc(self, fold: int, nominal: datetime) -> datetime | None:
        """The instant of a local time; None for one that is skipped, unless it is a fixed time."""
        local = nominal.replace(tzinfo=self.zone)
        before, behind = _offset(local, 0), _offset(local, 1)
        if before >= behind:
            return nominal.replace(tzinfo=UTC) - (behind if fold else before)
        if not self.fixed:
            return None
        # In a gap the two offsets put the nominal time on either side of the change, so it lies between.
        start = nominal.replace(tzinfo=UTC) - behind
        seconds = range(int((behind - before).total_seconds()) + 1)

        def changed(second: int) -> bool:
            return (start + timedelta(seconds=second)).astimezone(self.zone).utcoffset() != before

        return start + timedelta(seconds=bisect_left(seconds, True, key=changed))


def _walker(calendar: str, start: datetime) -> Any:
    from croniter import croniter  # noqa: PLC0415 - slow to import, and needed where schedules are only

    return croniter(calendar, start)


def _walk(step: Callable[[type[datetime]], datetime]) -> Iterator[datetime]:
    while True:
        try:
            nominal = step(datetime)
        except (ValueError, OverflowError):  # past the last day that a datetime can hold
            return
        if nominal.year not in YEARS[1:-1]:  # a margin for the zone's offset
            return
        yield nominal


def _offset(local: datetime, fold: int) -> timedelta:
    offset = local.replace(fold=fold).utcoffset()
    assert offset is not None
    return offset


def five_fields(cron: object) -> list[str]:
    """The fields of an expression in upper case, short forms spelled out; values are not looked at yet."""
    text = cron.strip() if isinstance(cron, str) and len(cron) <= 255 else ""
    fields = _ALIASES.get(text.lower(), text).upper().split()
    if len(fields) != len(_FIELDS):
        raise invalid("cron", cron, f"five fields ({', '.join(_FIELDS)}) or one of {', '.join(_ALIASES)}")
    return fields


class Fields(NamedTuple):
    """The values of an expression's fields. Where days and weekdays are both restricted, either one is enough."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""


def field_values(fields: list[str]) -> Fields:
    """What five fields mean; ``InvalidSchedule`` where one cannot be read, or no day is left."""
    minutes, hours, days, months, weekdays = map(_values, _FIELDS, fields)
    weekdays = {day % 7 for day in weekdays}
    any_day, any_weekday = (field in ("*", "*/1") for field in (fields[2], fields[4]))
    possible = any(day <= _LONGEST_MONTH[month] for day in days for month in months)
    if not possible and any_weekday:
        raise invalid("cron", " ".join(fields), "a day that exists in one of its months")
    if not any_day and not any_weekday:
        # croniter reads a full list as *, which turns "either day" into "the other day", and gives up on an
        # impossible day of the month even where the weekday matches.
        if len(days) == 31 or len(weekdays) == 7:
            days, weekdays = set(range(1, 32)), set(range(7))
        elif not possible:
            days = set(range(1, 32))
    return Fields(*map(frozenset, (minutes, hours, days, months, weekdays)))


def _calendar(fields: list[str]) -> str:
    """The expression spelled out in numbers, so that croniter has nothing to read in a way of its own."""
    sizes = zip(field_values(fields), (60, 24, 31, 12, 7), strict=True)
    return " ".join("*" if len(v) == size else ",".join(map(str, sorted(v))) for v, size in sizes)


def _values(name: str, field: str) -> set[int]:
    lowest, highest, words = _FIELDS[name]
    values: set[int] = set()
    for item in field.split(","):
        match = _ITEM.fullmatch(item)
        low, high, step = _span(match, lowest, highest, words) if match else (-1, -1, 1)
        if not (lowest <= low <= high <= highest and 1 <= step <= highest - lowest):
            also = f" or {'/'.join(words)}" if words else ""
            accepted = f"{lowest} to {highest}{also}, *, a-b, */n, a-b/n, or a list of these"
            raise invalid("cron", field, accepted, part=f", {name} field")
        values.update(range(low, high + 1, step))
    return values


def _span(match: re.Match[str], lowest: int, highest: int, words: dict[str, int]) -> tuple[int, int, int]:
    def number(text: str) -> int:
        return int(text) if text.isdigit() else words.get(text, -1)

    step = int(match["step"] or 1)
    if not match["low"]:
        return lowest, highest, step
    low = number(match["low"])
    if not match["high"]:
        # Readers disagree about what "5/10" means, so it means nothing here.
        return low, low, 0 if match["step"] else 1
    # As the end of a range Sunday comes after Saturday.
    return low, 7 if match["high"] == "SUN" and low > 0 else number(match["high"]), step


def find_zone(name: object) -> ZoneInfo:
    """The zone of that name; ``InvalidSchedule`` when there is none."""
    try:
        if isinstance(name, str) and not _NOT_A_ZONE.fullmatch(name):
            return ZoneInfo(str.__str__(name))
    except (KeyError, ValueError, OSError):  # unknown; not a plain name; a folder of zones
        pass
    raise invalid("timezone", name, "an IANA name such as Europe/Paris")


def invalid(field: str, value: object, accepted: str, *, part: str = "") -> InvalidSchedule:
    """The error that names the field, the part of it that is wrong, the value and what is accepted."""
    text = f"{field}{part}: {options.shown(value)}; accepted is {accepted}"
    return InvalidSchedule(text, field=field, reason=accepted)
