"""Timetables in words: ``30 2 * * *`` is "At 02:30 every day".

Pure: no clock and no storage. Whatever restricts an expression is named; what would take too many words is not said.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sloppyjobs.schedules import cron
from sloppyjobs.schedules.cron import Fields

MOST_TIMES = 6
"""Times of the day that are named one by one."""
MOST_VALUES = 8
"""Minutes, hours or days that are named one by one."""

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


class _TooLongError(Exception):
    """It cannot be said in a few words."""


def cron_in_words(expression: str) -> str | None:
    """When an expression fires, in words; None where that cannot be said in a few.

    ``InvalidSchedule`` for an expression that cannot be read.
    """
    fields = cron.field_values(cron.five_fields(expression))
    try:
        times, daily = _times(fields)
        days = _days(fields)
        months = _months(fields)
    except _TooLongError:
        return None
    if daily and not days:
        days = "every day"
    text = " ".join(part for part in (times, days, months) if part).replace(" ,", ",")
    return text[0].upper() + text[1:]


def interval_in_words(seconds: float) -> str:
    """How often something happens: ``Every 5 minutes``, ``Every hour``, ``Every 1.5 seconds``."""
    for size, unit in _UNITS:
        if seconds >= size and seconds % size == 0:
            number = int(seconds // size)
            return f"Every {unit}" if number == 1 else f"Every {number:,} {unit}s"
    return f"Every {seconds:,g} seconds"


# The time of the day


def _times(fields: Fields) -> tuple[str, bool]:
    """When in a day; and whether these are times of the day, which want to hear on which."""
    minutes, hours = sorted(fields.minutes), sorted(fields.hours)
    if len(minutes) * len(hours) <= MOST_TIMES:
        return "at " + _listed([f"{hour:02}:{minute:02}" for hour in hours for minute in minutes]), True
    if len(minutes) == 1 and len(hours) < 24:
        found = _hourly(minutes[0], hours)
        if found:
            return found, False
    if len(hours) == 24:
        return _of_every_hour(minutes), False
    if len(hours) == 1 and len(minutes) < 60 and _step(minutes) is not None and not _divides_the_hour(minutes):
        step, hour = _step(minutes), f"{hours[0]:02}"
        every = "every minute" if step == 1 else f"every {step} minutes"
        return f"{every} from {hour}:{minutes[0]:02} to {hour}:{minutes[-1]:02}", False
    return f"{_minutes(minutes)} {_hours(hours)}", False


def _hourly(minute: int, hours: Sequence[int]) -> str | None:
    """Once in some hours that follow each other, or that divide the day."""
    step = _step(hours)
    every = "every hour" if step == 1 else f"every {step} hours"
    if step is not None and hours[0] == 0 and 24 % step == 0 and hours[-1] + step == 24:
        return f"{every}, {'on the hour' if minute == 0 else f'at minute {minute}'}"
    if step is None:
        return None
    return f"{every} from {hours[0]:02}:{minute:02} to {hours[-1]:02}:{minute:02}"


def _of_every_hour(minutes: Sequence[int]) -> str:
    if minutes == [0]:
        return "every hour, on the hour"
    if len(minutes) == 1:
        return f"every hour at minute {minutes[0]}"
    words = _minutes(minutes)
    return words if _divides_the_hour(minutes) else f"{words} of every hour"


def _minutes(minutes: Sequence[int]) -> str:
    step = _step(minutes)
    if _divides_the_hour(minutes):
        return "every minute" if step == 1 else f"every {step} minutes"
    if len(minutes) == 1:
        return f"at minute {minutes[0]}"
    if step is not None and len(minutes) > 3:
        every = "every minute" if step == 1 else f"every {step} minutes"
        return f"{every} from minute {minutes[0]} to {minutes[-1]}"
    return "at minutes " + _listed(_few(minutes))


def _divides_the_hour(minutes: Sequence[int]) -> bool:
    step = _step(minutes)
    return step is not None and minutes[0] == 0 and 60 % step == 0 and minutes[-1] + step == 60


def _hours(hours: Sequence[int]) -> str:
    if len(hours) == 1:
        return f"from {hours[0]:02}:00 to {hours[0]:02}:59"
    step = _step(hours)
    if step == 1:
        return f"from {hours[0]:02}:00 to {hours[-1]:02}:59"
    if step is not None and len(hours) > 3:
        return f"in every {_nth(step)} hour from {hours[0]} to {hours[-1]}"
    return "in the hours " + _listed(_few(hours))


# The day


def _days(fields: Fields) -> str:
    """On which days; nothing where it is every day."""
    found = []
    if len(fields.days) < 31:
        found.append(_days_of_month(sorted(fields.days)))
    if len(fields.weekdays) < 7:
        found.append(_span([(day - 1) % 7 for day in fields.weekdays], _WEEKDAYS, "on"))
    # Alone, a span of days reads better behind a comma than behind another "from".
    return (
        f", {found[0].removeprefix('from ')}"
        if len(found) == 1 and found[0].startswith("from ")
        else " or ".join(found)
    )


def _days_of_month(days: Sequence[int]) -> str:
    if len(days) == 1:
        return f"on day {days[0]} of the month"
    step = _step(days)
    if step == 1 and len(days) > 2:
        return f"from day {days[0]} to {days[-1]} of the month"
    if step is not None and len(days) > 3:
        return f"on every {_nth(step)} day from day {days[0]} to {days[-1]} of the month"
    return f"on days {_listed(_few(days))} of the month"


def _months(fields: Fields) -> str:
    return "" if len(fields.months) == 12 else _span([month - 1 for month in fields.months], _MONTHS, "in")


def _span(places: Sequence[int], names: Sequence[str], word: str) -> str:
    """Names of days or months: from one to another, or one by one."""
    places = sorted(places)
    if len(places) > 2 and _step(places) == 1:
        return f"from {names[places[0]]} to {names[places[-1]]}"
    return f"{word} " + _listed([names[place] for place in places])


# Lists


def _step(values: Sequence[int]) -> int | None:
    """The distance between neighbours, where it is always the same."""
    steps = {later - earlier for earlier, later in pairwise(values)}
    return steps.pop() if len(steps) == 1 else None


def _few(values: Sequence[int]) -> list[str]:
    if len(values) > MOST_VALUES:
        raise _TooLongError
    return [str(value) for value in values]


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _nth(number: int) -> str:
    return f"{number}{ {2: 'nd', 3: 'rd', 22: 'nd', 23: 'rd', 21: 'st'}.get(number, 'th') }"
