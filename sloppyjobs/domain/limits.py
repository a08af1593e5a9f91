"""Limits: how many jobs of a resource run at once, and how many start in a span of time. Pure.

Each partition of a resource has permits of its own. A rate is a token bucket that holds as many tokens as may start in
one span; what is kept of it is the instant at which it is full again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from sloppyjobs.domain import options
from sloppyjobs.errors import InvalidOption

MOST_AT_ONCE = 100_000
"""The largest number of permits of a partition."""
MOST_STARTS = 1_000_000
"""The largest rate, and how many starts in a second are the most that can be told apart."""
LONGEST_SPAN = 366 * 86_400.0
NO_PARTITION = ""
"""The partition of jobs that name none."""
PAUSE = "to let nothing start, pause the queue"

_NONE = timedelta(0)
_MICROSECOND = timedelta(microseconds=1)

Partition = tuple[str, str]
"""A resource and one of its partitions."""

PartitionOf = str | Callable[[Any], Any]
"""A key of the payload, or a function of the payload, whose value is the job's partition."""


class Limit(msgspec.Struct, frozen=True):
    """What a resource allows each of its partitions. None means no limit."""

    name: str
    concurrency: int | None = None
    """How many of its jobs run at once."""
    rate: int | None = None
    """How many of its jobs start in ``per`` seconds."""
    per: float | None = None


class LimitState(NamedTuple):
    """What a partition has left: None for no limit."""

    free: int | None
    tokens: int | None

    @property
    def room(self) -> int | None:
        """How many jobs may start; None for any number."""
        known = [number for number in self if number is not None]
        return max(0, min(known)) if known else None


def from_row(name: str, *numbers: Any) -> Limit:
    """A limit as its row says; one that lets nothing start where somebody has written what is no number there."""
    for number in numbers:
        # SQLite keeps text in a column of numbers, PostgreSQL NaN; and there is no span of 1e300 seconds.
        if number is not None and not (isinstance(number, int | float) and abs(number) <= options.LONGEST):
            return Limit(name, concurrency=0)
    return Limit(name, *numbers)


def checked(name: object, concurrency: object = None, rate: object = None, per: object = None) -> Limit:
    """A limit of these values, or ``InvalidOption``."""
    if rate is None and per is not None:
        raise InvalidOption("per says in how many seconds: pass rate as well", field="per")
    if rate is not None and per is None:
        raise InvalidOption("rate says how many start: pass per as well, the number of seconds", field="rate")
    span = None if per is None else options.seconds("per", per, zero=False)
    if span is not None and span > LONGEST_SPAN:
        raise options.refuse("per", per, "must be at most a year")
    starts = None if rate is None else _number("rate", rate, MOST_STARTS)
    if starts is not None and span is not None and starts / span > MOST_STARTS:
        raise options.refuse("rate", rate, f"must be at most {MOST_STARTS:,} in a second")
    at_once = None if concurrency is None else _number("concurrency", concurrency, MOST_AT_ONCE)
    return Limit(resource("name", name), at_once, starts, span)


def _number(option: str, value: object, most: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value < 1:
        raise options.refuse(option, value, f"must be at least 1, or None for no limit; {PAUSE}")
    return options.whole(option, value, least=1, most=most)


def resource(option: str, value: object) -> str:
    """The name of a resource."""
    return options.text(option, value)


def partition(option: str, value: object) -> str:
    """The name of a partition; a whole number stands for its digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return options.text(option, str(value))
    if not isinstance(value, str):
        raise options.refuse(option, value, "must be text or a whole number")
    return options.text(option, value)


def checked_partition_of(value: object) -> PartitionOf | None:
    """What a definition says of the partitions of its jobs."""
    if value is None or callable(value):
        return value
    if isinstance(value, str):
        return options.text("partition", value)
    raise options.refuse("partition", value, "must be a key of the payload, or a function of the payload")


def partition_of(given: PartitionOf, payload: Any) -> str | None:
    """The partition of a job with this payload; None where the payload's value is None."""
    if callable(given):
        try:
            found = given(payload)
        except Exception as error:
            # Its text may quote the payload.
            raised = f"the function that says it raised {type(error).__name__}; pass partition to this enqueue"
            raise InvalidOption(f"partition: {raised}", field="partition", reason=raised) from error
    elif isinstance(payload, Mapping):
        if given not in payload:
            raise options.refuse("partition", given, "the payload has no such key; pass partition to this enqueue")
        found = payload[given]
    elif hasattr(payload, given):
        found = getattr(payload, given)
    else:
        raise options.refuse("partition", given, "the payload has no such key; pass partition to this enqueue")
    return None if found is None else partition("partition", found)


# Tokens


def lets_nothing_start(limit: Limit) -> bool:
    """Whether somebody has written a number by hand that is refused otherwise. No claim must break by it."""
    return any(number is not None and number <= 0 for number in (limit.concurrency, limit.rate, limit.per))


def tokens(limit: Limit, full_at: datetime | None, now: datetime) -> int | None:
    """How many jobs may start now by the rate; None where there is none."""
    if limit.rate is None or limit.per is None:
        return None
    if lets_nothing_start(limit):
        return 0
    span = _microseconds(timedelta(seconds=limit.per))
    missing = _microseconds(_full_at(limit, full_at, now) - now)
    return (span - missing) * limit.rate // span


def after_taking(limit: Limit, full_at: datetime | None, now: datetime, number: int) -> datetime:
    """When the bucket is full again after so many tokens were taken."""
    assert limit.rate is not None
    assert limit.per is not None
    span = _microseconds(timedelta(seconds=limit.per))
    return _full_at(limit, full_at, now) + timedelta(microseconds=number * span // limit.rate)


def next_token_at(limit: Limit, full_at: datetime | None, now: datetime) -> datetime | None:
    """When a token comes, where none is there; None where one is, or where there is no rate."""
    left = tokens(limit, full_at, now)
    if left is None or left > 0 or lets_nothing_start(limit):
        return None
    assert limit.rate is not None
    assert limit.per is not None
    span = _microseconds(timedelta(seconds=limit.per))
    return _full_at(limit, full_at, now) - timedelta(microseconds=span - -(-span // limit.rate))


def emptied(limit: Limit, full_at: datetime | None, now: datetime, tolerated: timedelta = _NONE) -> datetime | None:
    """When an empty bucket is full, where a row says that this one is full still later, by more than is tolerated.

    It was written under another limit, or by a clock that stepped back since. Left as it is, no token would come until
    that instant is near: "no further off" must be written down to begin its way.
    """
    if limit.per is None or full_at is None or lets_nothing_start(limit):
        return None
    latest = now + timedelta(seconds=limit.per)
    return latest if full_at > latest + tolerated else None


def _full_at(limit: Limit, full_at: datetime | None, now: datetime) -> datetime:
    """Not in the past, and no further off than an empty bucket needs: the limit may have been changed since."""
    assert limit.per is not None
    latest = now + timedelta(seconds=limit.per)
    return now if full_at is None else min(max(full_at, now), latest)


def _microseconds(span: timedelta) -> int:
    return span // _MICROSECOND
