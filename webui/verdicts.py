"""Why jobs of a queue, or of one kind, do not run: what needs attention there, for the pages of these."""

from __future__ import annotations

from collections.abc import Sequence

from sloppyjobs.views import JobTypeView
from webui import hidden_details
from webui.attention import Item, items
from webui.ui import Ui

_OF_A_QUEUE = ("no_worker", "no_handler", "lease_expired", "overrun")


def of_queue(ui: Ui, name: str) -> list[Item]:
    """What keeps jobs of this queue from running, and which of its running jobs should have ended."""
    return [_within(item, name) for item in _told(ui, (name,)) if item.one.code in _OF_A_QUEUE]


def of_job_type(ui: Ui, view: JobTypeView) -> list[Item]:
    """What keeps queued jobs of this name from running; of a queue only where it is the only one of the name."""
    if not view.queued or not view.queues:
        return []
    codes = ("no_worker", "queue_paused") if len(view.queues) == 1 else ("no_worker",)
    return [item for item in _told(ui, view.queues) if item.one.code in codes or item.one.name == view.name]


def _told(ui: Ui, queues: Sequence[str]) -> list[Item]:
    found = items(hidden_details.attention(ui.admin.queue_attention(queues)))
    # Where nothing is due, nobody misses a worker.
    return [item for item in found if item.one.code != "no_worker" or item.one.count]


def _within(item: Item, queue: str) -> Item:
    """With a list that shows jobs of the queue only, as its number counts no others."""
    return item._replace(values={**item.values, "queue": queue}) if item.endpoint == "jobs" else item
