"""What must happen with the edges of jobs on which something hangs, in the transaction that changes their status.

A job says in its column ``followups`` what hangs on it; plain jobs have NULL there, and cost nothing. Every way in
which a job moves on after it was written ends here: settlement of any outcome, lease expiry, commands, retention,
promotion. Only its creation and its claim do not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from sloppyjobs import errors
from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.states import Status


class Edge(NamedTuple):
    """A transition of a job, and what hangs on the job."""

    job_id: str
    source: Status
    target: Status | None
    """None where the row is about to be removed for good, or was moved to the archive."""
    bits: int
    waited_for: str | None = None
    """What the job waited for, where somebody moves it on from that; None for other jobs."""


Step = Callable[[Connection, Sequence[Edge]], None]
"""Sees to the edges of one transaction, before its commit. What it raises rolls all of it back."""

Refuse = Callable[[Connection, Sequence[Edge]], Mapping[str, errors.JobsError]]
"""Which of the edges that an operator asks for cannot be taken, by the ids of their jobs, and why."""


class Followups:
    """The steps of a store, each for one bit; and those of ``also``, which several stores share."""

    def __init__(self, also: Followups | None = None) -> None:
        self._also = also
        self._steps: list[tuple[int, Step]] = []
        self._refusing: list[tuple[int, Refuse]] = []
        self.members_ended: Callable[[Collection[str]], None] = _nothing
        """Told of batches whose members have ended, after the commit: their last ones may be among them."""

    def add(self, bit: Followup, step: Step) -> None:
        """Call ``step`` with every edge of jobs that have the bit; steps are called in the order of their adding."""
        self._steps.append((int(bit), step))

    def add_refusal(self, bit: Followup, refuse: Refuse) -> None:
        """Ask ``refuse`` before an operator's command takes jobs that have the bit along their edges."""
        self._refusing.append((int(bit), refuse))

    def refusals(self, connection: Connection, edges: Sequence[Edge]) -> Mapping[str, errors.JobsError]:
        """Which of these edges cannot be taken, by the ids of their jobs, and why."""
        refused: dict[str, errors.JobsError] = {}
        for bit, refuse in self._refusing:
            concerned = [edge for edge in edges if edge.bits & bit]
            if concerned:
                refused |= refuse(connection, concerned)
        return refused

    def after(self, connection: Connection, edges: Sequence[Edge]) -> None:
        """The rows have changed along these edges, given in their order; nothing is committed yet."""
        hanging = 0
        for edge in edges:
            hanging |= edge.bits
        for bit, step in self._steps:
            if hanging & bit:
                step(connection, [edge for edge in edges if edge.bits & bit])
        if self._also is not None:
            self._also.after(connection, edges)


def _nothing(_batch_ids: Collection[str]) -> None:
    """There are no batches."""


def bits_of(value: object) -> int:
    """What the column holds; nothing for NULL, and for what is no number in a damaged row.

    A plain number: every step asks every edge for its bit, which takes ten times as long with flags.
    """
    return value if isinstance(value, int) else 0
