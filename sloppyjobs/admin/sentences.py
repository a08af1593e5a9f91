"""Sentences with instants in them: each reader writes these in their own way and zone.

Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple


class At(NamedTuple):
    """An instant as a date and a time: ``2030-01-01 13:30:00 UTC``."""

    moment: datetime


class Relative(NamedTuple):
    """An instant as seen from now: ``40 s ago``, ``in 12 s``."""

    moment: datetime


class Since(NamedTuple):
    """How long something has lasted: ``4 min``."""

    moment: datetime


Part = str | At | Relative | Since
Sentence = tuple[Part, ...]
"""Text and instants, in the order in which they are read."""
Write = Callable[[Sentence, datetime], str]
"""Makes text of a sentence; the second argument is the present."""


def plain(sentence: Sentence, now: datetime) -> str:
    """The sentence as text, with its instants in UTC: for terminals and JSON."""
    return "".join(part if isinstance(part, str) else _text(part, now) for part in sentence)


def _text(part: At | Relative | Since, now: datetime) -> str:
    if isinstance(part, At):
        return f"{part.moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    seconds = (part.moment - now).total_seconds()
    if isinstance(part, Since):
        return span(-seconds)
    return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"


def span(seconds: float) -> str:
    """A duration in its two largest units, at least ``1 s``: ``1 h 30 min``."""
    left = timedelta(seconds=max(1, round(seconds)))
    minutes, s = divmod(left.seconds, 60)
    hours, m = divmod(minutes, 60)
    parts = [f"{n} {unit}" for n, unit in ((left.days, "d"), (hours, "h"), (m, "min"), (s, "s")) if n]
    return " ".join(parts[:2])
