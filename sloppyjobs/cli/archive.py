"""``archive``: jobs that a purge has moved there, and how to get one back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import click
from rich.console import Console

from sloppyjobs.cli import output
from sloppyjobs.cli.listing import render_job
from sloppyjobs.cli.paging import more
from sloppyjobs.cli.params import Moment, as_json, at, paged, signed
from sloppyjobs.cli.target import Target, pass_target
from sloppyjobs.errors import UnknownJob
from sloppyjobs.views import ArchivedRow, ArchivedView, Page

_FILTERS: tuple[tuple[str, Any, str], ...] = (
    ("id", str, "A job's id; it may be shortened in the middle."),
    ("key", str, "A business key or an idempotency key."),
    ("name", str, "A job's name."),
    ("queue", str, "A queue."),
    ("created-from", Moment(), "Enqueued at or after; an instant, or 2h for two hours ago."),
    ("created-to", Moment(), "Enqueued before."),
)


def _searched(command: Callable[..., Any]) -> Callable[..., Any]:
    command = as_json(paged()(command))
    for name, kind, text in reversed(_FILTERS):
        metavar = "INSTANT" if isinstance(kind, Moment) else "TEXT"
        command = click.option(f"--{name}", type=kind, metavar=metavar, help=text)(command)
    return command


@click.group(invoke_without_command=True)
@_searched
@click.pass_context
def archive(ctx: click.Context, /, **given: Any) -> None:
    """Search archived jobs, show them, restore them as new ones.

    `purge --archive` and a retention with archive=True move deleted jobs there.
    """
    if ctx.invoked_subcommand is None:
        _print(ctx.obj, **given)


@archive.command("list")
@_searched
@pass_target
def list_(target: Target, /, **given: Any) -> None:
    """Search the archive, latest enqueued first."""
    _print(target, **given)


def _print(target: Target, *, page_size: int, cursor: str | None, as_json: bool, **given: Any) -> None:
    for name in ("created_from", "created_to"):
        given[name] = at(given[name], target.now)
    page = target.admin.search_archive(**given, cursor=cursor, page_size=page_size)
    output.emit(page, as_json, lambda out: _render(out, page, target.now()))
    more(page, as_json)


def _render(out: Console, page: Page[ArchivedRow], now: datetime) -> None:
    if output.nothing(out, page.items, "archived jobs"):
        return
    made = output.table(
        "ID",
        "ENDED",
        "NAME",
        "QUEUE",
        "ENQUEUED",
        "ARCHIVED",
        "NOTE",
        whole=("ID", "ENDED", "ENQUEUED", "ARCHIVED"),
        cut=("NAME", "QUEUE"),
    )
    for one in page:
        made.add_row(
            one.id,
            output.word(one.ended_as or one.status),
            output.plain(one.name),
            output.plain(one.queue),
            output.ago(one.created_at, now),
            output.ago(one.archived_at, now),
            f"restored as {one.restored_as}" if one.restored_as else "",
        )
    output.draw(out, made, spare=("QUEUE", "ENQUEUED", *(() if any(one.restored_as for one in page) else ("NOTE",))))


@archive.command()
@click.argument("id")
@as_json
@pass_target
def show(target: Target, id: str, as_json: bool) -> None:
    """Show an archived job with its attempts, events and logs.

    Payload, result, errors and logs are redacted.
    """
    job = target.admin.get_archived(_whole(target, id))
    output.emit(job, as_json, lambda out: _render_one(out, job, target.now()))


def _render_one(out: Console, job: ArchivedView, now: datetime) -> None:
    ended = f", {output.word(job.ended_as)} before it was deleted" if job.ended_as else ""
    out.print(f"archived {output.ago(job.archived_at, now)}{ended}")
    if job.restored_as:
        out.print(f"restored {output.ago(job.restored_at, now)} as {job.restored_as}")
    if not job.readable:
        out.print("[yellow]its history cannot be read[/]")
    render_job(out, job, {"attempts": job.attempts, "events": job.events, "logs": job.logs}, now)


@archive.command()
@click.argument("id")
@signed
@as_json
@pass_target
def restore(target: Target, id: str, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Enqueue an archived job as a new one, which runs at once."""
    job = target.admin.restore(_whole(target, id), actor=actor, reason=reason)
    output.emit(job, as_json, lambda out: out.print(f"{job.id} is {output.word(job.status)}", soft_wrap=True))


def _whole(target: Target, id: str) -> str:
    """The id that a shortened one stands for."""
    if "…" not in id and "..." not in id:
        return id
    found = [one.id for one in target.admin.search_archive(id=id, page_size=5)]
    if len(found) == 1:
        return found[0]
    many = f"{id} may be {' or '.join(found)}: give the whole id"
    raise UnknownJob(many if found else f"no archived job has an id like {id}")
