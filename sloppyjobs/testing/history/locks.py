"""Named locks: holders are disjoint (I11)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sloppyjobs.testing.history import entries
from sloppyjobs.testing.history.evidence import Evidence
from sloppyjobs.testing.history.violations import Finding

CLOCK_STEP = 0.002
"""Seconds by which a lock may end early, because the database's clock has no finer steps than a millisecond."""


class _Hold(NamedTuple):
    owner: str
    since: float
    until: float


def lock_holders_are_disjoint(evidence: Evidence) -> Iterator[Finding]:
    """I11: at no time do two owners hold a lock; each holds it until it is released or its time is over."""
    by_name: dict[str, list[entries.Locked | entries.Unlocking]] = defaultdict(list)
    for entry in evidence.entries:
        if isinstance(entry, entries.Locked | entries.Unlocking):
            by_name[entry.name].append(entry)
    for name, written in by_name.items():
        early = CLOCK_STEP + evidence.clock_skew.total_seconds()
        holds = sorted(_holds(written, early), key=lambda hold: hold.since)
        latest: _Hold | None = None
        for hold in holds:
            if latest is not None and latest.owner != hold.owner and hold.since < latest.until:
                yield Finding(
                    f"lock {name!r}",
                    f"{hold.owner} had it {latest.until - hold.since:.3f} s before the time of {latest.owner} was over",
                )
            if latest is None or hold.until > latest.until:
                latest = hold


def _holds(written: Sequence[entries.Locked | entries.Unlocking], early: float) -> Iterator[_Hold]:
    """The intervals in which the owners are sure to have held the lock."""
    held: dict[str, _Hold] = {}
    for entry in written:
        before = held.pop(entry.owner, None)
        if isinstance(entry, entries.Unlocking):
            if before is not None:
                yield before._replace(until=min(before.until, entry.at))
        elif before is not None and before.until >= entry.at:
            held[entry.owner] = before._replace(until=entry.until - early)
        else:
            if before is not None:
                yield before
            held[entry.owner] = _Hold(entry.owner, entry.at, entry.until - early)
    yield from held.values()
