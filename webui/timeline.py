"""The events of a job as parts of its timeline: of many attempts, those in the middle are folded."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from sloppyjobs.views import EventView

LEAST = 4
"""Attempts from which on those between the first and the last are folded."""


class Part(NamedTuple):
    """Events that follow each other; shown, or folded under a label."""

    events: Sequence[EventView]
    label: str = ""


def parts(events: Sequence[EventView]) -> list[Part]:
    """The timeline: the first and the last attempt as they are, and what somebody did between them."""
    starts = [place for place, event in enumerate(events) if event.event_type == "claimed"]
    if len(starts) < LEAST:
        return [Part(events)]
    begin, end = starts[1], starts[-1]
    runs = [list(run) for _, run in groupby(events[begin:end], key=lambda event: event.actor is not None)]
    return [Part(events[:begin]), *(Part(run, _label(run)) for run in runs), Part(events[end:])]


def _label(run: Sequence[EventView]) -> str:
    """``Attempts 2 to 4: 9 events``; nothing for events that say more than their number."""
    numbers = {event.attempt_number for event in run if event.attempt_number is not None}
    if len(numbers) < 2 or any(event.actor is not None for event in run):
        return ""
    return f"Attempts {min(numbers)} to {max(numbers)}: {len(run)} events"
