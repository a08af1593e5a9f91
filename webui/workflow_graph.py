"""The graph of a workflow as boxes and arrows: layers by the longest path, ordered by the middle of their neighbours.

Pure functions of what the admin tells. Of a large graph, jobs that are alike, by name and by what they wait for, are
drawn as one box, and so is a row of jobs of one name in which each waits for the one before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sloppyjobs.domain.states import Status
from sloppyjobs.views import WorkflowJobView, WorkflowLink
from webui.labels import counted

DRAWN = 40
"""Jobs that are drawn one by one; of more, those that are alike or in a row are one box."""
READABLE = 200
"""Boxes that are drawn unasked."""
MOST_BOXES = 600
"""Boxes that are drawn at all."""
ROWS = 24
"""Boxes below each other; a layer with more has several columns."""
CENTRED = 10
"""Boxes below each other that are seen without scrolling; where there are more, every column starts at the top."""
SWEEPS = 4
ROUNDS = 8
"""Steps by which jobs with different neighbours are told apart."""
WIDTH, HEIGHT = 176, 46
GAP_X, GAP_Y = 70, 20
MARGIN = 18
NAME_LENGTH = 21
NEEDS_LENGTH = 26
TEXT_LENGTH = 24
LEGEND = (("", "Condition met"), ("dim", "Still open"), ("hot", "After a failure"), ("gone", "Not met"))
"""The classes of arrows, and what they mean."""
ZOOMS = (25, 50, 75, 100, 150)
_WORST = (
    "dead",
    "failed",
    "processing",
    "retrying",
    "queued",
    "scheduled",
    "paused",
    "waiting",
    "cancelled",
    "deleted",
)


class Box(NamedTuple):
    """One job, or several that are alike, at its place."""

    x: float
    y: float
    job: WorkflowJobView
    number: int
    """How many jobs it stands for."""
    status: str
    """The one that asks for attention first."""
    text: str
    """What is below the name."""
    needs: str = ""
    """Which ends of others it waits for, where that is not their success alone; above the box."""

    @property
    def name(self) -> str:
        """The name, as much of it as fits."""
        name, many = self.job.name or "In another queue", self._many
        fits = NAME_LENGTH - len(many)
        return f"{name if len(name) <= fits else f'{name[: fits - 1]}…'}{many}"

    @property
    def line(self) -> str:
        """What is below the name, as much of it as fits."""
        return self.text if len(self.text) <= TEXT_LENGTH else f"{self.text[: TEXT_LENGTH - 1]}…"

    @property
    def title(self) -> str:
        """The whole."""
        name = self.job.name or "A job in a queue that you do not see"
        return f"{name}{self._many}: {self.text}"

    @property
    def _many(self) -> str:
        return f" ({self.number:,})" if self.number > 1 else ""


class Arrow(NamedTuple):
    """A dependency: its path, and the class that says how it stands."""

    path: str
    kind: str


class Drawing(NamedTuple):
    """The whole graph."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    width: int
    height: int
    alike: int
    """How many jobs are not drawn by themselves."""
    layers: int

    @property
    def description(self) -> str:
        """In words, for those who do not see it."""
        boxes, steps = counted(len(self.boxes), "box", "boxes"), counted(self.layers, "step")
        return f"{boxes} in {steps}, {counted(len(self.arrows), 'arrow')}. The list below has every job in words."


class After(NamedTuple):
    """Jobs of one name that a job waits for in the same way."""

    number: int
    name: str
    job_id: str | None
    """Of the first."""
    words: str


def after(job: WorkflowJobView) -> list[After]:
    """What a job waits for, those of one name together."""
    found: dict[tuple[str, str], After] = {}
    for link in job.after:
        words = (
            f" if {link.when}" if link.when else {"failure": " (on failure)", "always": " (always)"}.get(link.needs, "")
        )
        name = link.name or "in another queue"
        known = found.get((name, words))
        found[name, words] = (
            After(1, name, link.job_id, words) if known is None else known._replace(number=known.number + 1)
        )
    return list(found.values())


class _Node(NamedTuple):
    jobs: list[int]
    parents: dict[int, WorkflowLink]


def draw(jobs: Sequence[WorkflowJobView], *, apart: bool = False) -> Drawing | None:
    """The drawing; None where there are too many boxes. ``apart`` draws each job by itself, and more boxes."""
    layers = _layers(jobs)
    classes = list(range(len(jobs)))
    if not apart and len(jobs) > DRAWN:
        classes = _in_rows(jobs, _alike(jobs, layers))
    nodes = _nodes(jobs, classes)
    if not nodes or len(nodes) > (MOST_BOXES if apart else READABLE):
        return None
    by_layer: dict[int, list[int]] = {}
    for key, node in nodes.items():
        by_layer.setdefault(layers[node.jobs[0]], []).append(key)
    ordered = _ordered([by_layer[layer] for layer in sorted(by_layer)], nodes)
    return _placed(jobs, nodes, ordered)


def _layers(jobs: Sequence[WorkflowJobView]) -> list[int]:
    """The longest path to each job; parents come before their children in the list."""
    layers: list[int] = []
    for place, job in enumerate(jobs):
        above = [layers[link.number] for link in job.after if link.number is not None and link.number < place]
        layers.append(1 + max(above, default=-1))
    return layers


def _alike(jobs: Sequence[WorkflowJobView], layers: Sequence[int]) -> list[int]:
    """A number for each job; those with the same number have a name, a layer and neighbours that are alike."""
    parents = [[link.number for link in job.after if link.number is not None] for job in jobs]
    children: list[list[int]] = [[] for _ in jobs]
    for place, above in enumerate(parents):
        for parent in above:
            children[parent].append(place)
    needs = [tuple(sorted({(link.needs, link.when or "") for link in job.after})) for job in jobs]
    colours = _numbered([(job.name or "", layers[place], needs[place]) for place, job in enumerate(jobs)])
    for _ in range(ROUNDS):
        finer = _numbered(
            [
                (
                    colours[place],
                    tuple(sorted({colours[parent] for parent in parents[place]})),
                    tuple(sorted({colours[child] for child in children[place]})),
                )
                for place in range(len(jobs))
            ]
        )
        if len(set(finer)) == len(set(colours)):
            break
        colours = finer
    return colours


def _in_rows(jobs: Sequence[WorkflowJobView], classes: Sequence[int]) -> list[int]:
    """The same, where a row of boxes of one name, each with one before and one after it, has one number."""
    nodes = _nodes(jobs, classes)
    children = Counter(parent for node in nodes.values() for parent in node.parents)
    first: dict[int, int] = {}
    for key, node in nodes.items():
        first[key] = key
        for parent, link in node.parents.items():
            plain = link.needs == "success" and not link.when
            alone = len(node.parents) == children[parent] == 1 and len(nodes[parent].jobs) == len(node.jobs)
            inside = all(one.number is not None for job in node.jobs for one in jobs[job].after)
            if plain and alone and inside and jobs[node.jobs[0]].name == jobs[nodes[parent].jobs[0]].name:
                first[key] = first[parent]
    return [first[one] for one in classes]


def _numbered(values: Sequence[tuple[object, ...]]) -> list[int]:
    numbers: dict[tuple[object, ...], int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def _nodes(jobs: Sequence[WorkflowJobView], classes: Sequence[int]) -> dict[int, _Node]:
    nodes: dict[int, _Node] = {}
    for place, job in enumerate(jobs):
        node = nodes.setdefault(classes[place], _Node([], {}))
        node.jobs.append(place)
        for link in job.after:
            if link.number is not None and classes[link.number] != classes[place]:
                held = node.parents.get(classes[link.number])
                # What is still open, or ended otherwise, says more than what is met.
                if held is None or (held.state == "met" and link.state != "met"):
                    node.parents[classes[link.number]] = link
    return nodes


def _ordered(layers: list[list[int]], nodes: Mapping[int, _Node]) -> list[list[int]]:
    """Each layer in the order of the middles of its neighbours', a few times down and up."""
    children: dict[int, list[int]] = {key: [] for key in nodes}
    for key, node in nodes.items():
        for parent in node.parents:
            children[parent].append(key)
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        places = {key: place for layer in layers for place, key in enumerate(layer)}
        for layer in layers if downwards else reversed(layers):
            middle = {}
            for place, key in enumerate(layer):
                near = list(nodes[key].parents) if downwards else children[key]
                middle[key] = sum(places[one] for one in near) / len(near) if near else float(place)
            layer.sort(key=lambda key: middle[key])
            places.update({key: place for place, key in enumerate(layer)})
    return layers


def _placed(jobs: Sequence[WorkflowJobView], nodes: Mapping[int, _Node], layers: list[list[int]]) -> Drawing:
    tallest = max(min(len(layer), ROWS) for layer in layers)
    height = 2 * MARGIN + tallest * (HEIGHT + GAP_Y) - GAP_Y
    boxes: dict[int, Box] = {}
    x = float(MARGIN)
    for layer in layers:
        columns = [layer[start : start + ROWS] for start in range(0, len(layer), ROWS)]
        for column in columns:
            top = (height - len(column) * (HEIGHT + GAP_Y) + GAP_Y) / 2
            y = top if tallest <= CENTRED else float(MARGIN)
            for key in column:
                boxes[key] = _box(x, y, jobs, nodes[key].jobs)._replace(needs=_needs(nodes[key]))
                y += HEIGHT + GAP_Y
            x += WIDTH + (GAP_X if column is columns[-1] else GAP_Y)
    arrows = [
        _arrow(boxes[parent], boxes[key], link) for key, node in nodes.items() for parent, link in node.parents.items()
    ]
    hidden = sum(len(node.jobs) for node in nodes.values() if len(node.jobs) > 1)
    return Drawing(tuple(boxes.values()), tuple(arrows), int(x - GAP_X + MARGIN), int(height), hidden, len(layers))


def _box(x: float, y: float, all_jobs: Sequence[WorkflowJobView], places: Sequence[int]) -> Box:
    jobs = [all_jobs[place] for place in places]
    counts = Counter(job.status.value for job in jobs)
    status = next((word for word in _WORST if word in counts), Status.SUCCEEDED.value)
    if len(jobs) == 1:
        [job] = jobs
        tries = f", attempt {job.attempt_count}" if job.attempt_count > 1 else ""
        return Box(x, y, job, 1, status, f"{status.capitalize()}{tries}")
    text = ", ".join(f"{number:,} {word}" for word, number in counts.most_common())
    inside = set(places)
    row = any(link.number in inside for job in jobs for link in job.after)
    in_a_row = f"In a row: {text}"
    # The number says more than how they stand to each other, where there is no room for both.
    return Box(x, y, jobs[0], len(jobs), status, in_a_row if row and len(in_a_row) <= TEXT_LENGTH else text)


def _needs(node: _Node) -> str:
    words = {
        f"if {link.when}" if link.when else {"failure": "on failure", "always": "always"}.get(link.needs, "")
        for link in node.parents.values()
    }
    told = ", ".join(sorted(words - {""}))
    return told if len(told) <= NEEDS_LENGTH else f"{told[: NEEDS_LENGTH - 1]}…"


def _arrow(parent: Box, child: Box, link: WorkflowLink) -> Arrow:
    x1, y1 = parent.x + WIDTH, parent.y + HEIGHT / 2
    x2, y2 = child.x - 2, child.y + HEIGHT / 2
    bend = max(24.0, min(60.0, (x2 - x1) / 2))
    path = f"M{x1:g} {y1:g}C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2:g} {y2:g}"
    if link.needs == "failure" and link.state == "met":
        return Arrow(path, "hot")
    return Arrow(path, {"open": "dim", "met": "", "failed": "gone"}[link.state])
