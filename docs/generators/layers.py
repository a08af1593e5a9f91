"""The picture of the layers: ``python docs/generators/layers.py > docs/explanation/layers.svg``.

The arrows come from the imports; only the groups of modules stand here. An import that points upwards is an error. An
arrow that follows from others is left out: the UI calls the command line's neighbours, and so it may call all below.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from graphlib import TopologicalSorter

import grimp

GROUPS: Mapping[str, tuple[str, ...]] = {
    "webui": ("webui",),
    "flask": ("sloppyjobs.flask",),
    "cli": ("sloppyjobs.cli", "sloppyjobs.__main__"),
    "testing": ("sloppyjobs.testing",),
    "demo": ("sloppyjobs.demo",),
    "jobs": ("sloppyjobs.jobs", "sloppyjobs.claim_protocol"),
    "workflow": ("sloppyjobs.workflow",),
    "worker": ("sloppyjobs.worker", "sloppyjobs.alerting.evaluation"),
    "admin": ("sloppyjobs.admin",),
    "retention, locks": ("sloppyjobs.retention", "sloppyjobs.locks", "sloppyjobs.limits", "sloppyjobs.queues"),
    "schedules": ("sloppyjobs.schedules.registry", "sloppyjobs.schedules.settings", "sloppyjobs.schedules.occurrences"),
    "enqueue": (
        "sloppyjobs.enqueue.request",
        "sloppyjobs.enqueue.defining",
        "sloppyjobs.enqueue.asynchronous",
        "sloppyjobs.enqueue.batches",
        "sloppyjobs.enqueue.signalling",
        "sloppyjobs.alerting",
        "sloppyjobs.enqueue.batches",
        "sloppyjobs.enqueue.bulk_terms",
        "sloppyjobs.enqueue.typed_payloads",
        "sloppyjobs.enqueue.option_rules",
    ),
    "definitions, pages": (
        "sloppyjobs.enqueue.definitions",
        "sloppyjobs.enqueue.upcasts",
        "sloppyjobs.enqueue.waiting",
        "sloppyjobs.internals",
        "sloppyjobs.encryption",
        "sloppyjobs.observe",
        "sloppyjobs.logs",
        "sloppyjobs.paging",
    ),
    "storage/dialects": ("sloppyjobs.storage.dialects.",),
    "storage/ports": (
        "sloppyjobs.storage.ports",
        "sloppyjobs.storage.acting_task",
        "sloppyjobs.storage.answer_timeout",
        "sloppyjobs.storage.clock",
        "sloppyjobs.storage.unavailable",
        "sloppyjobs.storage.watcher",
    ),
    "storage": ("sloppyjobs.storage.",),
    "cron, timetables": ("sloppyjobs.schedules",),
    "views": ("sloppyjobs.views",),
    "domain, errors, ids": (
        "sloppyjobs.domain",
        "sloppyjobs.errors",
        "sloppyjobs.ids",
        "sloppyjobs.enqueue.option_types",
    ),
}
"""Each module belongs to the first group of which a prefix fits."""

APART = ("sloppyjobs", "sloppyjobs.storage", "sloppyjobs.enqueue", "sloppyjobs.autogenerate", "sloppyjobs.storage.urls")
"""Packages that only load on demand what lies in them, and what is used by nobody."""

BOX_WIDTH, BOX_HEIGHT, ROW = 176, 40, 78
WIDTH = 1000

PLACES: Mapping[str, tuple[int, int]] = {
    "webui": (400, 0),
    "flask": (400, 1),
    "cli": (400, 2),
    "testing": (640, 3),
    "demo": (400, 3),
    "jobs": (400, 4),
    "worker": (200, 5),
    "admin": (200, 6),
    "workflow": (505, 6),
    "storage/dialects": (885, 6),
    "retention, locks": (105, 7),
    "schedules": (305, 7),
    "enqueue": (505, 7),
    "storage": (760, 7),
    "definitions, pages": (305, 8),
    "storage/ports": (640, 8),
    "views": (305, 9),
    "cron, timetables": (640, 9),
    "domain, errors, ids": (470, 10),
}
"""The middle of each group's box, and its row."""


def group_of(module: str) -> str | None:
    """The group of a module; None for what belongs to none."""
    if module in APART:
        return None
    for group, prefixes in GROUPS.items():
        if any(module == prefix or module.startswith(prefix.rstrip(".") + ".") for prefix in prefixes):
            return group
    raise LookupError(f"{module} belongs to no group of the picture")


def imports() -> dict[str, set[str]]:
    """Which groups each group imports, by the imports that are executed."""
    graph = grimp.build_graph("sloppyjobs", "webui", exclude_type_checking_imports=True)
    found: dict[str, set[str]] = {group: set() for group in GROUPS}
    for module in graph.modules:
        importer = group_of(module)
        for imported in graph.find_modules_directly_imported_by(module):
            target = group_of(imported)
            if importer is not None and target is not None and target != importer:
                found[importer].add(target)
    return found


def reduced(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The edges without those that follow from others. Raises ``CycleError`` where an import points upwards."""
    below: dict[str, set[str]] = {}
    for group in TopologicalSorter(edges).static_order():
        below[group] = set().union(*({one} | below[one] for one in edges[group]))
    return {
        group: {one for one in targets if not any(one in below[other] for other in targets if other != one)}
        for group, targets in edges.items()
    }


def svg() -> str:
    """The picture."""
    edges = reduced(imports())
    place = {group: (x, 30 + row * ROW) for group, (x, row) in PLACES.items()}
    upwards = [(group, one) for group in edges for one in edges[group] if PLACES[group][1] >= PLACES[one][1]]
    if upwards:
        raise ValueError(f"these arrows of the picture do not point downwards: {upwards}")
    height = 60 + max(row for _, row in PLACES.values()) * ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Layers">',
        "<style>text{font:14px sans-serif;text-anchor:middle;dominant-baseline:central;fill:#1b1f24}"
        "rect{fill:#f6f8fa;stroke:#57606a}path{fill:none;stroke:#8c959f;stroke-width:1.2}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{fill:#161b22;stroke:#8b949e}path{stroke:#6e7681}}"
        "</style>",
        '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8" /></marker></defs>',
    ]
    for group in GROUPS:
        x, y = place[group]
        for one in sorted(edges[group]):
            to_x, to_y = place[one]
            start, end = y + BOX_HEIGHT / 2, to_y - BOX_HEIGHT / 2
            bend = (end - start) / 2
            parts.append(
                f'<path d="M{x:g} {start:g}C{x:g} {start + bend:g} {to_x:g} {end - bend:g} {to_x:g} {end:g}" '
                'marker-end="url(#end)" />'
            )
    for group in GROUPS:
        x, y = place[group]
        left, top = x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2
        parts.append(f'<rect x="{left:g}" y="{top:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" />')
        parts.append(f'<text x="{x:g}" y="{y:g}">{group}</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    sys.stdout.write(svg())
