"""How many children a worker must expect to claim with the settlement of their parents, as it has been so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil

from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.ports.claims import Share

AWAITED = 250
"""Jobs for which others wait that are settled at once where there is no room for children: these can be claimed only
after the commit, and run while the next part is settled."""
LEAST_AWAITED = 16
"""Those that are settled at once though there is less room than they may have children."""
KINDS = 1000
"""Kinds of jobs of which the numbers are remembered."""

_DEPENDANTS = int(Followup.DEPENDANTS)
_SUCCEEDED = (Status.SUCCEEDED,)
_LOWEST, _HIGHEST = 1 / 16, 1000.0
_STEP = 4.0

Kind = tuple[tuple[str, str] | None, int]
"""The queue and name of a job, and what hangs on it: the jobs at one place of a workflow mostly have these alike."""


class ExpectedChildren:
    """Learns from each settlement how many children there were for each job of a kind."""

    def __init__(self) -> None:
        self._of_kind: dict[Kind, float] = {}
        self._shared: Counter[Kind] = Counter()

    def number(self, settlements: Iterable[Settlement]) -> int:
        """How many children are expected of all these; none while no kind is known."""
        return ceil(self._expected(Counter(filter(None, map(_kind, settlements))))) if self._of_kind else 0

    def share(self, settlements: Sequence[Settlement], room: int) -> Share:
        """How many of the settlements, from the first, are best written at once where there is so much room."""
        self._shared = Counter()
        if not any(one.followups for one in settlements):
            return Share(len(settlements), 0)
        number, awaited, expected = len(settlements), 0, 0.0
        for place, one in enumerate(settlements):
            if (kind := _kind(one)) is None:
                continue
            awaited += 1
            more = expected + self._of_kind.setdefault(kind, 1.0)
            if more > room and awaited > (LEAST_AWAITED if room else AWAITED):
                number = place
                break
            expected = more
            self._shared[kind] += 1
        return Share(number, ceil(expected))

    def learn(self, found: int) -> None:
        """Those that were shared last were written at once, and so many children could be claimed."""
        factor = (found + 1) / (self._expected(self._shared) + 1)
        factor = min(_STEP, max(1 / _STEP, factor))
        if len(self._of_kind) > KINDS:
            self._of_kind.clear()
        for kind in self._shared:
            self._of_kind[kind] = min(_HIGHEST, max(_LOWEST, self._of_kind.get(kind, 1.0) * factor))

    def _expected(self, kinds: Counter[Kind]) -> float:
        return sum(number * self._of_kind.get(kind, 1.0) for kind, number in kinds.items())


def _kind(one: Settlement) -> Kind | None:
    """The kind of a job that has succeeded, and for which others wait; None for all others."""
    if one.followups and one.followups & _DEPENDANTS and one.decision.path == _SUCCEEDED:
        return one.lane, one.followups
    return None
