"""The answer of a claim: claims that are read when they are looked at, and what it says of jobs that need permits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, overload

from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.model import Claim
from sloppyjobs.storage.jobs import rows

_PERMIT = int(Followup.PERMIT)
_FOLLOWUPS = rows.CLAIM_FIELDS.index("followups")


def any_limited(answer: Any) -> bool:
    """Whether jobs that need permits are among those that were claimed."""
    result = answer.pgresult
    found = (result.get_value(number, _FOLLOWUPS) for number in range(result.ntuples))
    return any(bits is not None and int.from_bytes(bits, "big") & _PERMIT for bits in found)


def met_limited(answer: Any) -> bool:
    """Whether the claim passed over jobs that need permits."""
    result = answer.pgresult
    return bool(result.ntuples) and result.get_value(result.ntuples - 1, 0) is None


class UnreadClaims(Sequence[Claim]):
    """Rows that become claims when they are looked at, which may be while the database is busy with the next ones."""

    def __init__(self, cursor: Any, convert: Callable[[Any], list[Claim]]) -> None:
        self._cursor = cursor
        self._convert = convert

    @cached_property
    def _all(self) -> list[Claim]:
        return self._convert(self._cursor)

    def __len__(self) -> int:
        count: int = self._cursor.rowcount
        return count

    def __iter__(self) -> Iterator[Claim]:
        return iter(self._all)

    @overload
    def __getitem__(self, place: int) -> Claim: ...

    @overload
    def __getitem__(self, place: slice) -> list[Claim]: ...

    def __getitem__(self, place: int | slice) -> Claim | list[Claim]:
        return self._all[place]
