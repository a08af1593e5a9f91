"""Claims that are read when they are looked at, which may be while the database is busy with the next ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import overload

from sloppyjobs.domain.model import Claim


class UnreadClaims(Sequence[Claim]):
    """So many claims, which ``read`` makes of the rows that the database has answered with."""

    def __init__(self, number: int, read: Callable[[], list[Claim]]) -> None:
        self._number = number
        self._read = read

    @cached_property
    def _all(self) -> list[Claim]:
        return self._read()

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[Claim]:
        return iter(self._all)

    @overload
    def __getitem__(self, place: int) -> Claim: ...

    @overload
    def __getitem__(self, place: slice) -> list[Claim]: ...

    def __getitem__(self, place: int | slice) -> Claim | list[Claim]:
        return self._all[place]
