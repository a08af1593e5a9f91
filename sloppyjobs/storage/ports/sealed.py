"""Texts that may be encrypted, wherever they lie, so that they can be encrypted with another key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

RowKey = tuple[Any, ...]


class SealedRow(NamedTuple):
    """A row with texts: its key, whom they are encrypted for, and the texts or their beginnings, by column."""

    key: RowKey
    owner: str
    texts: Mapping[str, str | None]


class SealedChange(NamedTuple):
    """New texts for a row, if it still has the old ones."""

    key: RowKey
    old: Mapping[str, str | None]
    new: Mapping[str, str | None]


class RekeyRecord(NamedTuple):
    """A run of ``rekey``: how far it is, in rows."""

    id: str
    key_id: str
    """The key that it encrypts with."""
    actor: str | None
    total: int
    """How many there were when it began."""
    started_at: datetime
    moved_at: datetime
    """When it last did something."""
    finished_at: datetime | None = None
    examined: int = 0
    rewritten: int = 0
    changed: int = 0
    unreadable: int = 0


class RekeyDone(NamedTuple):
    """What a step of a run did."""

    examined: int
    rewritten: int
    changed: int
    unreadable: int


class SealedPort(Protocol):
    """Every text that may be encrypted; a store has it as ``sealed``.

    An area is a table: ``jobs``, ``logs``, ``schedules``, ``archive`` and the like.
    """

    def areas(self) -> Sequence[str]:
        """Their names."""
        ...

    def beginnings(self, area: str, after: RowKey | None, limit: int, *, backward: bool = False) -> list[SealedRow]:
        """The next rows in the order of their keys, with how their texts begin."""
        ...

    def texts(self, area: str, keys: Sequence[RowKey]) -> list[SealedRow]:
        """These rows with their whole texts."""
        ...

    def replace(self, area: str, changes: Sequence[SealedChange]) -> int:
        """Write new texts, where the old ones are still there; how many rows it was."""
        ...

    def count(self, area: str) -> int:
        """How many rows there are, for a progress bar."""
        ...

    def begin_run(self, run: RekeyRecord) -> None:
        """Write down that a run begins; runs that last moved 90 days ago are forgotten."""
        ...

    def advance_run(self, run_id: str, done: RekeyDone, *, finished: bool) -> None:
        """Write down that a run has moved."""
        ...

    def last_run(self) -> RekeyRecord | None:
        """The run that moved last."""
        ...
