"""``recurring``: schedules, when they fire, and what an operator does to them."""

from __future__ import annotations

from datetime import datetime

import click
from rich.console import Console

from sloppyjobs.cli import output
from sloppyjobs.cli.paging import listing_group
from sloppyjobs.cli.params import as_json, signed
from sloppyjobs.cli.target import Target, pass_target
from sloppyjobs.schedules import timetable
from sloppyjobs.schedules.cron import find_zone
from sloppyjobs.schedules.occurrences import Recurring
from sloppyjobs.views import Page


def _render(out: Console, page: Page[Recurring], now: datetime) -> None:
    if output.nothing(out, page.items, "schedules"):
        return
    made = output.table("SCHEDULE", "JOB", "WHEN", "NEXT", "LAST", "STATE", whole=("NEXT", "LAST"))
    for one in page:
        made.add_row(
            output.plain(one.name),
            output.plain(one.job_name),
            _when(one),
            output.ago(one.next_run_at, now),
            output.ago(one.last_run_at, now) or "[dim]never[/]",
            _state(one),
        )
    out.print(made)


def _when(one: Recurring) -> str:
    if one.kind == "interval":
        return f"every {output.duration(one.every)}"
    if one.kind == "once":
        return "once"
    zone = "" if one.timezone == "UTC" else f" {one.timezone}"
    return output.plain(f"{one.cron}{zone}")


def _state(one: Recurring) -> str:
    if one.last_error is not None:
        return f"[bold red]failed[/] {output.plain(one.last_error, 60)}"
    if one.vanished:
        return "[yellow]vanished from code[/]"
    return "[yellow]paused[/]" if one.paused else "[green]on[/]"


recurring = listing_group(
    "recurring",
    "List schedules, and steer them.",
    "List schedules, by name.",
    lambda admin: admin.list_recurring,
    _render,
)


@recurring.command()
@click.argument("name")
@signed
@as_json
@pass_target
def pause(target: Target, name: str, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Let a schedule not fire until it is resumed."""
    _say(target, target.admin.pause_recurring(name, actor=actor, reason=reason), as_json)


@recurring.command()
@click.argument("name")
@signed
@as_json
@pass_target
def resume(target: Target, name: str, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Let a schedule fire again, from its next occurrence on."""
    _say(target, target.admin.resume_recurring(name, actor=actor, reason=reason), as_json)


def _say(target: Target, one: Recurring, as_json: bool) -> None:
    def render(out: Console) -> None:
        following = output.ago(one.next_run_at, target.now()) or "never"
        fires = "does not fire" if one.paused or one.vanished else f"fires next {following}"
        out.print(f"schedule {output.plain(one.name)} is {_state(one)}; it {fires}")

    output.emit(one, as_json, render)


@recurring.command()
@click.argument("name")
@signed
@as_json
@pass_target
def trigger(target: Target, name: str, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Enqueue one job of a schedule now, paused or not."""
    job = target.admin.trigger_recurring(name, actor=actor, reason=reason)
    output.emit(job, as_json, lambda out: out.print(f"{job.id} is {output.word(job.status)}", soft_wrap=True))


@recurring.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@signed
@as_json
@pass_target
def delete(target: Target, name: str, yes: bool, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Remove a schedule for good; jobs that it enqueued go on."""
    one = target.admin.get_recurring(name)
    if not yes:
        click.confirm(f"remove the schedule {output.harmless(one.name)} of {one.job_name}?", abort=True, err=True)
    gone = target.admin.delete_recurring(name, actor=actor, reason=reason)
    output.emit(gone, as_json, lambda out: out.print(f"schedule {output.plain(gone.name)} is removed"))


@recurring.command()
@click.argument("name", required=False)
@click.option("--cron", metavar="EXPRESSION", help="An expression to try, in place of a schedule's name.")
@click.option("--timezone", default="UTC", show_default=True, help="The zone of the expression.")
@click.option("--count", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many occurrences.")
@as_json
@pass_target
def preview(target: Target, name: str | None, cron: str | None, timezone: str, count: int, as_json: bool) -> None:
    """Show the next occurrences of a schedule, or of an expression that is none yet."""
    if (name is None) == (cron is None):
        raise click.UsageError("give the name of a schedule, or an expression with --cron")
    if cron is not None:
        # Asked of the host's clock, because it needs no database.
        now = datetime.now().astimezone()
        found = timetable.preview(timetable.parse(cron=cron, timezone=timezone, now=now), now, count)
    else:
        assert name is not None
        one = target.admin.get_recurring(name)
        now, timezone, found = target.now(), one.timezone, one.upcoming(count)

    def render(out: Console) -> None:
        if output.nothing(out, found, "occurrences"):
            return
        made = output.table("OCCURRENCE (UTC)", f"IN {timezone}", "", whole=("OCCURRENCE (UTC)",))
        for moment in found:
            there = moment.astimezone(find_zone(timezone))
            made.add_row(f"{moment:%Y-%m-%d %H:%M:%S}", f"{there:%a %Y-%m-%d %H:%M:%S %Z}", output.ago(moment, now))
        out.print(made)

    output.emit({"items": found}, as_json, render)
