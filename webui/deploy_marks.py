"""Where deploys stand in a chart, and which of their labels have room. The templates draw."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sloppyjobs.views import DeployView

MOST = 8
"""Deploys that are drawn in one chart, the latest ones; its table has the others as well."""
LABEL = 14
"""Characters of a version that its label shows."""
SAID = 26
"""Characters of a version that hover and focus show."""
_NARROW, _WIDE = 2.7, 1.8
"""What a character of a label takes, in percent of a chart on a phone, and of one that shares a desk with another."""
_GAP = 1.5


class Mark(NamedTuple):
    """A deploy in a chart: its place in percent, and its label."""

    deploy: DeployView
    place: float
    label: str
    said: str
    anchor: str
    """Which part of the label stands at the place: ``start``, ``middle`` or ``end``."""
    shown: str
    """Where the label has room: ``always``, ``wide`` (not on a phone), or ``never``."""


class Marks(NamedTuple):
    """The deploys of a chart, oldest first: those that are drawn, and all of them."""

    drawn: tuple[Mark, ...] = ()
    listed: tuple[DeployView, ...] = ()


def marks(deploys: Sequence[DeployView], start: datetime, seconds: float) -> Marks:
    """The deploys, given latest first, of the span of a chart."""
    places = {one.number: 100 * (one.created_at - start).total_seconds() / seconds for one in deploys if seconds > 0}
    inside = [one for one in deploys if 0 <= places.get(one.number, -1.0) <= 100]
    drawn: list[Mark] = []
    for one in inside[:MOST]:
        label, place = truncated(one.version, LABEL), round(places[one.number], 2)
        mark = Mark(one, place, label, truncated(one.version, SAID), _anchor(place, len(label)), "never")
        drawn.append(mark._replace(shown=_room(mark, drawn)))
    return Marks(tuple(reversed(drawn)), tuple(reversed(inside)))


def truncated(version: str, longest: int) -> str:
    """The beginning of a version that is too long for its place."""
    return version if len(version) <= longest else version[: longest - 1].rstrip() + "…"


def _anchor(place: float, length: int) -> str:
    half = length * _NARROW / 2
    return "start" if place < half else "end" if place > 100 - half else "middle"


def _room(mark: Mark, before: Sequence[Mark]) -> str:
    """Later deploys are labelled first: the latest one has its label always."""
    if any(_overlap(mark, other, _WIDE) for other in before if other.shown != "never"):
        return "never"
    crowded = any(_overlap(mark, other, _NARROW) for other in before if other.shown == "always")
    return "wide" if crowded else "always"


def _overlap(one: Mark, other: Mark, each: float) -> bool:
    (start, end), (other_start, other_end) = _extent(one, each), _extent(other, each)
    return start < other_end + _GAP and other_start < end + _GAP


def _extent(mark: Mark, each: float) -> tuple[float, float]:
    width = len(mark.label) * each
    start = mark.place - {"start": 0.0, "middle": width / 2, "end": width}[mark.anchor]
    return start, start + width
