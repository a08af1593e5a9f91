"""``batches``: how far they are, and what can be done to them as a whole."""

from __future__ import annotations

from datetime import datetime

import click
from rich.console import Console

from sloppyjobs.cli import output
from sloppyjobs.cli.paging import listing_group
from sloppyjobs.cli.params import as_json, signed
from sloppyjobs.cli.target import Target, pass_target
from sloppyjobs.views import BatchView, Page

_COLOURS = {"open": "cyan", "running": "blue", "succeeded": "green", "failed": "red", "cancelled": "yellow"}


def _render(out: Console, page: Page[BatchView], now: datetime) -> None:
    if output.nothing(out, page.items, "batches"):
        return
    numbers = ("DONE", "DEAD", "PER S")
    whole = ("ID", "STATUS", "END")
    made = output.table("ID", "STATUS", "NAME", *numbers, "END", right=numbers, whole=whole, cut=("NAME",))
    for batch in page:
        made.add_row(
            batch.id,
            _status(batch),
            output.plain(batch.name),
            f"{batch.total - batch.outstanding:,}/{batch.total:,}",
            f"[bold red]{batch.dead:,}[/]" if batch.dead else "0",
            "" if batch.rate is None else f"{batch.rate:,.1f}",
            output.ago(batch.finished_at or batch.eta, now),
        )
    output.draw(out, made, spare=("PER S",))


def _status(batch: BatchView) -> str:
    return f"[{_COLOURS[batch.status]}]{batch.status}[/]"


batches = listing_group(
    "batches",
    "List batches, show, seal, cancel and retry them.",
    "List batches, latest first.",
    lambda admin: admin.list_batches,
    _render,
)


@batches.command()
@click.argument("id")
@as_json
@pass_target
def show(target: Target, id: str, as_json: bool) -> None:
    """Show how far a batch is, and its callbacks."""
    batch = target.admin.get_batch(id)
    output.emit(batch, as_json, lambda out: _render_one(out, batch, target.now()))


def _render_one(out: Console, batch: BatchView, now: datetime) -> None:
    out.print(f"{output.plain(batch.name)}: {_status(batch)}, {batch.percent:.0f} % done", soft_wrap=True)
    out.print(f"{batch.explanation}", soft_wrap=True)
    made = output.table("TOTAL", "SUCCEEDED", "DEAD", "CANCELLED", "LEFT")
    numbers = (batch.total, batch.succeeded, batch.dead, batch.cancelled, batch.outstanding)
    made.add_row(*(f"{number:,}" for number in numbers))
    out.print(made)
    if batch.rate is not None:
        ends = f", ends {output.ago(batch.eta, now)}" if batch.eta is not None else ""
        out.print(f"{batch.rate:,.1f} jobs per second{ends}")
    for one in batch.callbacks:
        called = "called, its job was purged" if one.called else "not called"
        if one.status is not None:
            called = f"{one.job_id} is {output.word(one.status)}"
        out.print(f"on {one.kind}: {output.plain(one.name)}, {called}", soft_wrap=True)


@batches.command()
@click.argument("id")
@signed
@as_json
@pass_target
def seal(target: Target, id: str, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Let a batch take no further jobs, so that it can end."""
    _say(target.admin.seal_batch(id, actor=actor, reason=reason), as_json)


@batches.command()
@click.argument("id")
@signed
@as_json
@pass_target
def cancel(target: Target, id: str, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Cancel the jobs of a batch that have not ended."""
    _say(target.admin.cancel_batch(id, actor=actor, reason=reason), as_json)


@batches.command()
@click.argument("id")
@signed
@as_json
@pass_target
def retry(target: Target, id: str, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Retry the dead jobs of a batch."""
    _say(target.admin.retry_batch(id, actor=actor, reason=reason), as_json)


def _say(batch: BatchView, as_json: bool) -> None:
    output.emit(batch, as_json, lambda out: out.print(f"{batch.id} is {_status(batch)}. {batch.explanation}"))
