"""Texts that may be encrypted, wherever they lie, so that they can be encrypted with another key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
