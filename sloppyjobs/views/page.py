"""Lists and counts that stop at a bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

T_co = TypeVar("T_co", covariant=True)


class Page(msgspec.Struct, Generic[T_co], frozen=True):
    """One page of a list. A cursor is opaque text for the same list with the same filters; None at an end.

    A page may be shorter than asked, even empty, while ``next_cursor`` is set: a filter without an index of
    its own was stopped at its bound. Going on until ``next_cursor`` is None finds everything.
    """

    items: tuple[T_co, ...]
    next_cursor: str | None = None
    previous_cursor: str | None = None

    def __iter__(self) -> Iterator[T_co]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __bool__(self) -> bool:
        return bool(self.items)

    def __getitem__(self, index: int) -> T_co:
        return self.items[index]


class CappedCount(msgspec.Struct, frozen=True, order=True):
    """A count that stops at a bound; ``capped`` then, and as text "1,000+": there are, or may be, more."""

    value: int
    capped: bool = False

    def __str__(self) -> str:
        return f"{self.value:,}{'+' if self.capped else ''}"

    def __int__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return self.value > 0
