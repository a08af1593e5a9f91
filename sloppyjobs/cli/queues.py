"""``queues``: what lies in them, and their pauses."""

from __future__ import annotations

from datetime import datetime, timedelta

import click
from rich.console import Console

from sloppyjobs.cli import output
from sloppyjobs.cli.paging import listing_group
from sloppyjobs.cli.params import Span, as_json, at, ending, signed
from sloppyjobs.cli.target import Target, pass_target
from sloppyjobs.domain.ageing import rising
from sloppyjobs.views import Page, QueueView


def _render(out: Console, page: Page[QueueView], now: datetime) -> None:
    if output.nothing(out, page.items, "queues"):
        return
    numbers = ("QUEUED", "RUNNING", "LATER", "WORKERS", "PER MIN", "WAITED")
    made = output.table("QUEUE", *numbers, "STATE", right=numbers, cut=("QUEUE",))
    for queue in page:
        made.add_row(
            output.plain(queue.name),
            output.count(queue.depth),
            output.count(queue.processing),
            output.count(queue.scheduled),
            _workers(queue),
            f"{queue.throughput:.1f}",
            output.age(queue.oldest_queued_seconds),
            _state(queue, now) + _because(queue),
        )
    out.print(made)


def _workers(queue: QueueView) -> str:
    return "[bold red]0[/]" if queue.depth and not queue.workers else output.count(queue.workers)


def _state(queue: QueueView, now: datetime) -> str:
    if not queue.paused:
        return "open"
    end = f", ends {output.ago(queue.paused_until, now)}" if queue.paused_until is not None else ""
    return f"[yellow]paused[/]{end}"


def _because(queue: QueueView) -> str:
    by = f"by {queue.paused_by}" if queue.paused_by else None
    said = ", ".join(part for part in (queue.pause_reason, by) if part)
    return f" ({output.plain(said)})" if said else ""


queues = listing_group(
    "queues", "List queues, pause and resume them.", "List queues.", lambda admin: admin.list_queues, _render
)


@queues.command()
@click.argument("name")
@ending
@click.option("--create", is_flag=True, help="Pause a queue that nobody has used yet.")
@signed
@as_json
@pass_target
def pause(
    target: Target,
    name: str,
    until: datetime | timedelta | None,
    create: bool,
    actor: str | None,
    reason: str | None,
    as_json: bool,
) -> None:
    """Let no job of a queue start; those that run go on."""
    queue = target.admin.pause_queue(name, at(until, target.now), create=create, actor=actor, reason=reason)
    output.emit(queue, as_json, lambda out: _say(out, queue, target.now()))


@queues.command()
@click.argument("name")
@signed
@as_json
@pass_target
def resume(target: Target, name: str, actor: str | None, reason: str | None, as_json: bool) -> None:
    """End the pause of a queue."""
    queue = target.admin.resume_queue(name, actor=actor, reason=reason)
    output.emit(queue, as_json, lambda out: _say(out, queue, target.now()))


@queues.command()
@click.argument("name")
@click.option("--every", type=Span(), metavar="DURATION", help="How long a job is due until its priority rises by one.")
@click.option("--most", type=int, default=10, show_default=True, metavar="N", help="By how much it rises at most.")
@click.option("--off", is_flag=True, help="Let priorities stay as they are.")
@click.option("--create", is_flag=True, help="Set it for a queue that nobody has used yet.")
@signed
@as_json
@pass_target
def age(
    target: Target,
    name: str,
    every: float | None,
    most: int,
    off: bool,
    create: bool,
    actor: str | None,
    reason: str | None,
    as_json: bool,
) -> None:
    """Let jobs of a queue rise in priority while they wait."""
    if off is (every is not None):
        raise click.UsageError("give either --every or --off")
    ageing = target.admin.set_queue_ageing(name, every, most, create=create, actor=actor, reason=reason)
    words = "do not change while jobs wait" if ageing is None else rising(ageing.every, ageing.most)
    output.emit(ageing, as_json, lambda out: out.print(f"priorities in {output.plain(name)} {words}"))


def _say(out: Console, queue: QueueView, now: datetime) -> None:
    out.print(f"queue {output.plain(queue.name)} is {_state(queue, now)}")
