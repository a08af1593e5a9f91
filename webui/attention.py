"""How the overview shows what needs attention: an icon, a page to go to, and the words before an instant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote

from sloppyjobs.admin.attention import FEW
from sloppyjobs.domain.states import Status
from sloppyjobs.views import Attention, CappedCount, Overview

ICONS = {
    "no_worker": "workers",
    "dead": "dead",
    "failing": "retrying",
    "queue_without_worker": "queues",
    "no_handler": "queued",
    "queue_paused": "paused",
    "lease_expired": "processing",
    "overrun": "processing",
    "worker_stale": "workers",
    "worker_stuck": "workers",
    "schedule_late": "recurring",
    "schedule_failed": "recurring",
}
CODES = tuple(ICONS)
"""Every kind of thing that needs attention."""
LEVELS = {"bad": "bad", "warn": "warn", "info": "mut"}
"""The class of an icon."""
SINCE = {
    "no_worker": "Last worker seen",
    "dead": "The first died",
    "queue_without_worker": "The first was due",
    "no_handler": "The first was due",
    "queue_paused": "Paused",
    "lease_expired": "The first lease ended",
    "overrun": "The first started",
    "worker_stale": "Last heartbeat",
    "schedule_late": "Was due",
    "schedule_failed": "Failed",
}
"""What happened at the instant."""


def causes(overview: Overview) -> str:
    """How many causes its dead jobs have, where they may have several; ``5+`` where there are more than it shows."""
    groups = overview.dead_groups
    known = sum(group.count.value for group in groups)
    dead = next((one.count for one in overview.statuses if one.status is Status.DEAD), CappedCount(0))
    if not groups or dead.value < 2:
        return ""
    capped = any(group.count.capped for group in groups)
    more = capped or (len(groups) == FEW and (dead.capped or dead.value > known))
    return f", {len(groups)}{'+' if more else ''} cause{'' if len(groups) == 1 and not more else 's'}"


class Item(NamedTuple):
    """One line of "Needs attention"."""

    id: str
    one: Attention
    icon: str
    icon_class: str
    endpoint: str
    values: dict[str, str]
    since: str


def items(found: Iterable[Attention]) -> list[Item]:
    """The lines, each with the page that shows more."""
    return [
        Item(
            "-".join(["attention", one.code, *(quote(part, "") for part in _subject(one) if part)]),
            one,
            ICONS[one.code],
            LEVELS[one.level],
            *_page(one),
            SINCE.get(one.code, ""),
        )
        for one in found
    ]


def _subject(one: Attention) -> tuple[str | None, ...]:
    return one.queue, one.name, one.worker, one.schedule


def _page(one: Attention) -> tuple[str, dict[str, str]]:
    if one.code in ("lease_expired", "overrun"):
        return "jobs", {"status": "processing"}
    if one.code == "failing":
        return "jobs", {"status": "retrying"}
    if one.name is not None and one.queue is not None:
        return "jobs", {"status": "queued", "queue": one.queue, "name": one.name}
    if one.queue is not None:
        return "queue", {"name": one.queue}
    if one.schedule is not None:
        return "schedule", {"name": one.schedule}
    if one.worker is not None:
        return "worker", {"id": one.worker}
    return ("dead" if one.code == "dead" else "workers"), {}
