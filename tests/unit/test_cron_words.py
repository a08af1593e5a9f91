"""Timetables in words."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sloppyjobs import errors
from sloppyjobs.schedules import cron
from sloppyjobs.schedules.cron_words import cron_in_words, interval_in_words

WORDS = {
    "* * * * *": "Every minute",
    "*/5 * * * *": "Every 5 minutes",
    "0,30 * * * *": "Every 30 minutes",
    "*/7 * * * *": "Every 7 minutes from minute 0 to 56 of every hour",
    "18,38,58 * * * *": "At minutes 18, 38 and 58 of every hour",
    "10-20 * * * *": "Every minute from minute 10 to 20 of every hour",
    "0 * * * *": "Every hour, on the hour",
    "@hourly": "Every hour, on the hour",
    "15 * * * *": "Every hour at minute 15",
    "0 */2 * * *": "Every 2 hours, on the hour",
    "15 */2 * * *": "Every 2 hours, at minute 15",
    "0 */5 * * *": "At 00:00, 05:00, 10:00, 15:00 and 20:00 every day",
    "30 2 * * *": "At 02:30 every day",
    "@daily": "At 00:00 every day",
    "0,30 2 * * *": "At 02:00 and 02:30 every day",
    "* 2 * * *": "Every minute from 02:00 to 02:59",
    "10-40/5 3 * * *": "Every 5 minutes from 03:10 to 03:40",
    "* 2,4 * * *": "Every minute in the hours 2 and 4",
    "*/20 */2 * * *": "Every 20 minutes in every 2nd hour from 0 to 22",
    "0,15,30 8,12,18 * * *": "At minutes 0, 15 and 30 in the hours 8, 12 and 18",
    "0 20 * * 5": "At 20:00 on Friday",
    "0 20 * * FRI,MON": "At 20:00 on Monday and Friday",
    "@weekly": "At 00:00 on Sunday",
    "0 9-17 * * 1-5": "Every hour from 09:00 to 17:00, Monday to Friday",
    "*/15 9-17 * * MON-FRI": "Every 15 minutes from 09:00 to 17:59, Monday to Friday",
    "0 12 * * 5-7": "At 12:00, Friday to Sunday",
    "0 0 1 * *": "At 00:00 on day 1 of the month",
    "0 0 1,15 * *": "At 00:00 on days 1 and 15 of the month",
    "0 4 */2 * *": "At 04:00 on every 2nd day from day 1 to 31 of the month",
    "@yearly": "At 00:00 on day 1 of the month in January",
    "0 0 * */3 *": "At 00:00 every day in January, April, July and October",
    "0 12 * JUN-AUG SUN": "At 12:00 on Sunday from June to August",
    "0 3 13 * 5": "At 03:00 on day 13 of the month or on Friday",
    "0 3 1-7 * 1-5": "At 03:00 from day 1 to 7 of the month or from Monday to Friday",
    "1,2,3,5,7,8,9,11,13 * * * *": None,
}


@pytest.mark.parametrize("expression", WORDS)
def test_an_expression_is_said_in_words(expression: str) -> None:
    assert cron_in_words(expression) == WORDS[expression]


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(errors.InvalidSchedule):
        cron_in_words("every day")


def test_an_interval_is_said_in_words() -> None:
    said = [interval_in_words(seconds) for seconds in (60, 300, 3600, 7200, 86_400, 90, 1.5)]
    assert said == [
        "Every minute", "Every 5 minutes", "Every hour", "Every 2 hours", "Every day", "Every 90 seconds",
        "Every 1.5 seconds",
    ]  # fmt: skip


def _field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    pair = st.tuples(number, number).map(sorted)
    step = st.integers(1, high - low)
    item = st.one_of(
        number.map(str),
        pair.map(lambda two: f"{two[0]}-{two[1]}"),
        step.map(lambda every: f"*/{every}"),
        st.tuples(pair, step).map(lambda both: f"{both[0][0]}-{both[0][1]}/{both[1]}"),
    )
    return st.one_of(st.just("*"), item, st.lists(item, min_size=1, max_size=3).map(",".join))


EXPRESSIONS = st.tuples(_field(0, 59), _field(0, 23), _field(1, 28), _field(1, 12), _field(0, 7)).map(" ".join)


@given(EXPRESSIONS, EXPRESSIONS)
def test_every_restriction_is_named_so_that_the_same_words_mean_the_same_times(one: str, other: str) -> None:
    first, second = (cron.field_values(cron.five_fields(given)) for given in (one, other))
    # One field at a time: two random expressions differ in all of them.
    for place, name in enumerate(first._fields):
        mixed = first._replace(**{name: second[place]})
        assume(max(len(_written(fields)) for fields in (first, mixed)) <= 255)
        words = [cron_in_words(_written(fields)) for fields in (first, mixed)]
        if words[0] is not None and words[0] == words[1]:
            assert cron.field_values(cron.five_fields(_written(first))) == cron.field_values(
                cron.five_fields(_written(mixed))
            )


def _written(fields: cron.Fields) -> str:
    sizes = (60, 24, 31, 12, 7)
    return " ".join(
        "*" if len(values) == size else ",".join(map(str, sorted(values)))
        for values, size in zip(fields, sizes, strict=True)
    )
