"""What must happen with the edges of jobs on which something hangs, in the transaction that changes their status.

A job says in its column ``followups`` what hangs on it; plain jobs have NULL there, and cost nothing. Every way in
which a job moves on after it was written ends here: settlement of any outcome, lease expiry, commands, retention,
promotion. Only its creation and its claim do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntFlag
from typing import NamedTuple

from sqlalchemy import Connection

from sloppyjobs.domain.states import Status


class Followup(IntFlag):
    """What hangs on a job: the bits of its column ``followups``."""

    DEPENDANTS = 1
    KEY = 2
    BATCH = 4
    PERMIT = 8


class Edge(NamedTuple):
    """A transition of a job, and what hangs on the job."""

    job_id: str
    source: Status
    target: Status | None
    """None where the row was removed for good, or moved to the archive."""
    bits: Followup


Step = Callable[[Connection, Sequence[Edge]], None]
"""Sees to the edges of one transaction, before its commit. What it raises rolls all of it back."""


class Followups:
    """The steps of a storage, each for one bit."""

    def __init__(self) -> None:
        self._steps: list[tuple[Followup, Step]] = []

    def add(self, bit: Followup, step: Step) -> None:
        """Call ``step`` with every edge of jobs that have the bit; steps are called in the order of their adding."""
        self._steps.append((bit, step))

    def after(self, connection: Connection, edges: Sequence[Edge]) -> None:
        """The rows have changed along these edges, given in their order; nothing is committed yet."""
        for bit, step in self._steps:
            concerned = [edge for edge in edges if edge.bits & bit]
            if concerned:
                step(connection, concerned)


def bits_of(value: object) -> Followup:
    """What the column holds; nothing for NULL, and for what is no number in a damaged row."""
    return Followup(value if isinstance(value, int) else 0)
