"""Batches: jobs that are counted together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from sloppyjobs.domain.batches import BatchRow, BatchStatus, NewBatch, Tally
from sloppyjobs.storage.ports.jobs import CallerConnection
from sloppyjobs.storage.ports.operators import Command, Decide
from sloppyjobs.storage.ports.reads import Key, Scope


class BatchCounts(NamedTuple):
    """The numbers of a batch, and when the first and the last of its members ended."""

    tally: Tally = Tally()
    first_at: datetime | None = None
    last_at: datetime | None = None


class BatchFound(NamedTuple):
    """A batch with its numbers."""

    row: BatchRow
    counts: BatchCounts


class BatchQuery(NamedTuple):
    """What a list of batches is narrowed to. Values are checked already."""

    status: BatchStatus | None = None
    name: str | None = None
    scope: Scope = None


class BatchPort(Protocol):
    """Batches as producers and workers know them; a store has it as ``batches``."""

    def open(self, new: NewBatch, connection: CallerConnection | None = None) -> None:
        """Write a batch that takes members."""
        ...

    def seal(self, batch_id: str, connection: CallerConnection | None = None) -> BatchRow:
        """Let it take no further members from outside; it ends when all have ended. ``UnknownBatch`` for none."""
        ...

    def end_over(self, batch_ids: Collection[str]) -> None:
        """End those of these batches that are sealed and have nothing outstanding."""
        ...

    def sweep(self, limit: int) -> int:
        """End batches that should have ended: the process that ended their last members may have died. How many."""
        ...


class BatchCommandPort(Protocol):
    """What operators do to batches; a store has it as ``batch_commands``."""

    def begin_cancel(self, batch_id: str, command: Command, connection: CallerConnection | None = None) -> bool:
        """Seal a batch, and let its members be cancelled by ``advance``; False where that is so already."""
        ...

    def begin_retry(self, batch_id: str, command: Command) -> bool:
        """Let the dead members of a batch be retried by ``advance``; False where that is so already."""
        ...

    def seal(self, batch_id: str, command: Command) -> bool:
        """Seal a batch; False where it is sealed already."""
        ...

    def advance(self, batch_id: str, cancel: Decide, retry: Decide, steps: int) -> int:
        """Carry out what was begun, a bounded number of jobs at a time; how many there were. Nothing if others do."""
        ...


class BatchReadPort(Protocol):
    """Batches as pages show them; a store has it as ``batch_rows``."""

    def get(self, batch_id: str, scope: Scope) -> BatchFound:
        """A batch with its numbers in these queues; ``UnknownBatch`` where there is none, or none there."""
        ...

    def queues(self, batch_id: str) -> Sequence[str]:
        """The queues that members of a batch are in, or were."""
        ...

    def page(
        self, wanted: BatchQuery, after: Key | None, *, backward: bool, limit: int
    ) -> tuple[Sequence[BatchFound], Key | None]:
        """Batches beyond a key, latest first or backward, and the key after which to go on."""
        ...

    def dead_members(self, batch_id: str, limit: int) -> Sequence[str]:
        """The first members of a batch that are dead."""
        ...

    def due_actions(self) -> Sequence[str]:
        """Batches with a command to carry out."""
        ...
