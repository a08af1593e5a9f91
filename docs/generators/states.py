"""The picture of the state machine: ``python docs/generators/states.py > docs/explanation/states.svg``.

The edges come from ``sloppyjobs/domain/states.py``; only their ways across the picture stand here, and one that is
missing or left over is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

from sloppyjobs.domain.states import EDGES, Status

WIDTH, HEIGHT = 1000, 480
BOX_WIDTH, BOX_HEIGHT = 112, 40

Point = tuple[float, float]


class Box(NamedTuple):
    """Where a state stands, and what kind it is."""

    x: float
    y: float
    kind: str

    def at(self, side: str) -> Point:
        """A point on its border: ``n``, ``e``, ``s``, ``w``, or with a number a place along that side, 0 to 1."""
        along = float(side[1:] or 0.5) - 0.5
        match side[0]:
            case "n" | "s":
                return self.x + along * BOX_WIDTH, self.y + (BOX_HEIGHT / 2 if side[0] == "s" else -BOX_HEIGHT / 2)
            case _:
                return self.x + (BOX_WIDTH / 2 if side[0] == "e" else -BOX_WIDTH / 2), self.y + along * BOX_HEIGHT


class Way(NamedTuple):
    """An edge's way: from a side, by some control points of a curve, to a side. ``both`` goes in both directions."""

    start: str
    end: str
    bend: tuple[Point, ...] = ()
    operator: bool = False
    both: bool = False


BOXES = {
    Status.WAITING: Box(100, 105, "before"),
    Status.SCHEDULED: Box(265, 105, "before"),
    Status.PAUSED: Box(430, 105, "before"),
    Status.RETRYING: Box(595, 105, "before"),
    Status.QUEUED: Box(430, 215, "before"),
    Status.PROCESSING: Box(595, 215, "running"),
    Status.FAILED: Box(760, 215, "bad"),
    Status.DEAD: Box(915, 215, "bad"),
    Status.SUCCEEDED: Box(760, 350, "good"),
    Status.CANCELLED: Box(265, 350, "over"),
    Status.DELETED: Box(915, 350, "over"),
}

GROUP = (30, 62, 635, 198)
"""The states from which a job can be cancelled, as x, y, width and height; one arrow stands for all of them."""

WAYS = {
    (Status.WAITING, Status.SCHEDULED): Way("e", "w"),
    (Status.WAITING, Status.QUEUED): Way("s", "w0.5", ((100, 215), (260, 215)), both=True),
    (Status.SCHEDULED, Status.QUEUED): Way("s", "w0.1", ((265, 190), (320, 199))),
    (Status.WAITING, Status.PAUSED): Way("n", "n0.3", ((100, 40), (400, 40)), operator=True, both=True),
    (Status.SCHEDULED, Status.PAUSED): Way("e", "w", operator=True, both=True),
    (Status.PAUSED, Status.QUEUED): Way("s", "n", operator=True, both=True),
    (Status.PAUSED, Status.RETRYING): Way("e", "w", operator=True, both=True),
    (Status.RETRYING, Status.QUEUED): Way("s0.2", "n0.9", ((560, 170), (500, 160))),
    (Status.QUEUED, Status.PROCESSING): Way("e", "w"),
    (Status.PROCESSING, Status.WAITING): Way("s0.3", "s0.2", ((540, 268), (60, 268))),
    (Status.PROCESSING, Status.SUCCEEDED): Way("s0.75", "w", ((620, 350), (660, 350))),
    (Status.PROCESSING, Status.FAILED): Way("e", "w"),
    (Status.FAILED, Status.RETRYING): Way("n", "e", ((760, 130), (720, 105))),
    (Status.FAILED, Status.QUEUED): Way("s0.3", "s0.8", ((730, 300), (470, 300))),
    (Status.FAILED, Status.DEAD): Way("e", "w"),
    (Status.DEAD, Status.QUEUED): Way("n", "n0.7", ((915, -80), (525, 10)), operator=True),
    (Status.DEAD, Status.DELETED): Way("s", "n", operator=True),
    (Status.QUEUED, Status.DELETED): Way("s0.3", "s0.35", ((408, 470), (885, 450)), operator=True),
    (Status.SUCCEEDED, Status.DELETED): Way("e", "w", operator=True),
    (Status.CANCELLED, Status.DELETED): Way("s", "s0.65", ((265, 490), (930, 490)), operator=True),
}

STYLE = """
  svg { color-scheme: light dark; font: 18px system-ui, sans-serif; }
  .ground { fill: #fbfbfd; stroke: #d5d8e0; }
  .group { fill: #f1f3f9; stroke: #9aa3b8; stroke-dasharray: 5 4; }
  .box { fill: #fff; stroke-width: 2; }
  .before { stroke: #5b6b8c; } .running { stroke: #1f6feb; } .good { stroke: #1a7f37; }
  .bad { stroke: #c5303a; } .over { stroke: #7a7f8a; }
  text { fill: #1c2230; text-anchor: middle; dominant-baseline: central; }
  .note { fill: #4a5468; font-size: 16px; text-anchor: start; }
  .way { fill: none; stroke: #3b4660; stroke-width: 1.8; }
  .operator { stroke-dasharray: 6 4; stroke-width: 1.4; }
  .tip { fill: #3b4660; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #191c24; stroke: #3a4050; }
    .group { fill: #20242f; stroke: #68738c; }
    .box { fill: #252a36; }
    .before { stroke: #9fb0d6; } .running { stroke: #6cb0ff; } .good { stroke: #5fcf7f; }
    .bad { stroke: #ff8a8f; } .over { stroke: #a8adb8; }
    text { fill: #eef1f7; }
    .note { fill: #b9c1d2; }
    .way { stroke: #c3cbdc; }
    .tip { fill: #c3cbdc; }
  }
"""


def main() -> None:
    """Print the picture."""
    _check()
    sys.stdout.write("\n".join(_picture()) + "\n")


def _check() -> None:
    drawn = {*WAYS, *((target, source) for (source, target), way in WAYS.items() if way.both)}
    drawn |= {(source, Status.CANCELLED) for source in _cancellable()}
    edges = {(source, target) for source, targets in EDGES.items() for target in targets}
    if drawn != edges:
        sys.exit(f"the picture does not show {sorted(edges - drawn)}, and shows {sorted(drawn - edges)} too many")


def _cancellable() -> set[Status]:
    """The states whose boxes are inside the group."""
    x, y, width, height = GROUP
    return {state for state, box in BOXES.items() if x < box.x < x + width and y < box.y < y + height}


def _picture() -> Iterator[str]:
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="title">'
    yield '<title id="title">The states of a job, and the edges between them</title>'
    yield f"<style>{STYLE}</style>"
    yield '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"'
    yield ' orient="auto-start-reverse" markerUnits="userSpaceOnUse">'
    yield '<path class="tip" d="M0 0 10 5 0 10z"/></marker></defs>'
    yield f'<rect class="ground" x="1" y="1" width="{WIDTH - 2}" height="{HEIGHT - 2}" rx="10"/>'
    x, y, width, height = GROUP
    yield f'<rect class="group" x="{x}" y="{y}" width="{width}" height="{height}" rx="14"/>'
    yield from (_way(BOXES[source], BOXES[target], way) for (source, target), way in WAYS.items())
    cancelled = BOXES[Status.CANCELLED]
    yield _path([(cancelled.x, y + height), cancelled.at("n")], operator=True, both=False)
    for state, box in BOXES.items():
        left, top = box.x - BOX_WIDTH / 2, box.y - BOX_HEIGHT / 2
        shape = f'x="{left:g}" y="{top:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="8"'
        yield f'<rect class="box {box.kind}" {shape}/>'
        yield f'<text x="{box.x:g}" y="{box.y:g}">{state}</text>'
    yield f'<text class="note" x="{cancelled.x - 214:g}" y="302">cancel, from any of these</text>'
    yield from _legend()
    yield "</svg>"


def _legend() -> Iterator[str]:
    for y, operator, words in ((408, False, "by itself"), (434, True, "by operator or cleanup")):
        yield _path([(40, y), (84, y)], operator=operator, both=False)
        yield f'<text class="note" x="96" y="{y}">{words}</text>'


def _way(source: Box, target: Box, way: Way) -> str:
    return _path([source.at(way.start), *way.bend, target.at(way.end)], operator=way.operator, both=way.both)


def _path(points: list[Point], *, operator: bool, both: bool) -> str:
    command = "C" if len(points) == 4 else "L"
    (first, *rest) = (f"{x:g} {y:g}" for x, y in points)
    kind = "way operator" if operator else "way"
    start = ' marker-start="url(#tip)"' if both else ""
    return f'<path class="{kind}" d="M{first}{command}{" ".join(rest)}" marker-end="url(#tip)"{start}/>'


main()
