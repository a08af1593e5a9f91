"""A job's life as a bar: how long it was in each state. The template draws; here is decided where."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sloppyjobs.domain.states import FINISHED
from sloppyjobs.views import EventView

WIDTH = 300
"""Of the whole bar."""
_GAP = 0.6
_LEAST = 0.4
_REST = 4.0
"""The width of a time in which the job was finished, however long: days of being dead would hide its runs."""


class Segment(NamedTuple):
    """How long a job was in one state, and where that is in the bar."""

    status: str
    x: float
    width: float
    seconds: float
    to_scale: bool = True
    """False for the time between its end and a retry or a delete, which has a width of its own."""


def segments(events: Sequence[EventView], until: datetime | None) -> list[Segment]:
    """The bar of a job from its first event to ``until``, or to its last event for None.

    States that took no time are left out, and the time after the job's end.
    """
    if not events:
        return []
    ends = [*(event.created_at for event in events[1:]), until or events[-1].created_at]
    spans = [
        (event.to_status, (end - event.created_at).total_seconds()) for event, end in zip(events, ends, strict=True)
    ]
    if spans[-1][0] in FINISHED:
        spans.pop()
    spans = [(status, seconds) for status, seconds in spans if seconds > 0]
    moving = sum(seconds for status, seconds in spans if status not in FINISHED)
    if moving <= 0:
        return []
    scale = (WIDTH - _REST * sum(status in FINISHED for status, _ in spans)) / moving
    found, x = [], 0.0
    for status, seconds in spans:
        width = _REST if status in FINISHED else scale * seconds
        found.append(Segment(status.value, round(x, 2), max(_LEAST, width - _GAP), seconds, status not in FINISHED))
        x += width
    return found
