"""How the priorities of a queue age, as a value and in words."""

from __future__ import annotations

from typing import NamedTuple


class Ageing(NamedTuple):
    """Each ``every`` seconds after its run time the priority of a queued job rises by one, by ``most`` at most."""

    every: float
    most: int


def rising(every: float, most: int) -> str:
    """What priorities do in a queue that ages: ``rise by one every 60 s, by 10 at most``."""
    return f"rise by one every {every:,.12g} s, by {most:,} at most"
