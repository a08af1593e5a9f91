"""How the priorities of a queue age, as a value and in words."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec

from sloppyjobs.domain import options

MOST = 1_000_000


class Ageing(NamedTuple):
    """Each ``every`` seconds after its run time the priority of a queued job rises by one, by ``most`` at most."""

    every: float
    most: int


def checked(every: object, most: object, *, named: str = "every") -> Ageing:
    """What was asked for, or ``InvalidOption`` naming what cannot work."""
    return Ageing(options.seconds(named, every, least=1), options.whole("most", most, least=1, most=MOST))


def in_force(every: float | None, most: int | None, vanished_at: datetime | None) -> Ageing | None:
    """How a queue ages, by its row; None where it does not."""
    return None if every is None or vanished_at is not None else Ageing(float(every), int(most or 0))


def declared(text: str | None) -> Ageing | None:
    """What code declared, by a row; None where it declared nothing that can be read."""
    try:
        return None if text is None else msgspec.json.decode(text, type=Ageing)
    except msgspec.MsgspecError:
        # Somebody has changed it by hand.
        return None


def rising(every: float, most: int) -> str:
    """What priorities do in a queue that ages: ``rise by one every 60 s, by 10 at most``."""
    return f"rise by one every {every:,.12g} s, by {most:,} at most"
