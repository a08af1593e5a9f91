"""What the checker reports."""

from __future__ import annotations

from typing import NamedTuple


class Violation(NamedTuple):
    """A promise that was broken: which one, of what, and what was seen."""

    invariant: str
    """``I1``, ``I2`` …."""
    subject: str
    """The id of a job, or the name of a schedule, a key or a lock."""
    seen: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.subject}: {self.seen}"


class Finding(NamedTuple):
    """What an invariant's function has found: of what, and what was seen."""

    subject: str
    seen: str
