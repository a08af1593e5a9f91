"""The tiles of the overview. The number is jobs that have the status now; the line below says what it counts itself."""

from __future__ import annotations

from typing import NamedTuple

from sloppyjobs.domain.states import Status
from sloppyjobs.views import CappedCount, Overview, Stats, StatusCount
from webui.spans import Span


class Tile(NamedTuple):
    """A status: how many jobs have it now, and how that came about."""

    status: Status
    jobs: CappedCount
    change: str
    """What happened in the span, or what the number is compared with."""
    note: str = ""
    oldest_seconds: float | None = None
    """Since when the oldest of them waits; None for the states in which jobs end."""
    title: str = ""
    """The same in whole sentences."""


def tile(one: StatusCount, stats: Stats, overview: Overview, span: Span) -> Tile:
    """Jobs that run are compared with slots, ends of jobs with events of the span, others with those created in it."""
    if one.status is Status.PROCESSING:
        change, title = _slots(one.count, overview)
        return Tile(one.status, one.count, change, oldest_seconds=one.oldest_seconds, title=title)
    if one.fresh is not None:
        created = f"{one.fresh if one.fresh else 'none'} new in {span.short}"
        title = f"{one.count} {one.status} now, {one.fresh} of them created in the last {span.words}."
        return Tile(one.status, one.count, created, oldest_seconds=one.oldest_seconds, title=title)
    return _ended(one, stats, span)


def _slots(running: CappedCount, overview: Overview) -> tuple[str, str]:
    slots = f"{overview.slots:,} slot{'' if overview.slots == 1 else 's'}"
    if not overview.live_workers:
        held = f"{running} running, {slots}: no live worker."
        return "no live worker", held if not running else f"{held} {_ELSEWHERE}"
    if running.value > overview.slots:
        return f"running, {slots} live", f"{running} running, {slots} of live workers. {_ELSEWHERE}"
    return f"of {slots}", f"{running} running on {slots} of live workers."


_ELSEWHERE = "The others are held by workers that are stopping or gone, or by clients that are not registered."


def _ended(one: StatusCount, stats: Stats, span: Span) -> Tile:
    came = getattr(stats.total, one.status.value)
    before = getattr(stats.previous, one.status.value) if stats.previous is not None else 0
    events = _events(one.status, came)
    # The word of a tile is its status; deaths are said, because they are not the dead jobs of now.
    change = (f"{came:,}" if came else "none") + (" died" if one.status is Status.DEAD else "")
    title = f"{one.count} {one.status} now. {events} in the last {span.words}, {before:,} in the same time before."
    note = compared(came - before)
    if one.status is Status.DEAD and came > one.count.value and not one.count.capped:
        # Deaths are events: a retried job leaves the count, and may die again.
        note = "some retried" if one.count else "retried or deleted"
        title += " A job that was retried or deleted since is not dead any more; one that died twice counts twice."
    return Tile(one.status, one.count, f"{change} in {span.short}", note, title=title)


def _events(status: Status, number: int) -> str:
    if status is Status.DEAD:
        return "no deaths" if not number else f"{number:,} death{'' if number == 1 else 's'}"
    return f"{number:,} {status}" if number else f"none {status}"


def compared(difference: int) -> str:
    """How a number differs from that of the same time before, short enough for a tile."""
    if not difference:
        return "as before"
    return f"{'up' if difference > 0 else 'down'} {abs(difference):,}"
