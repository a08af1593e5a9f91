"""``recurring``: schedules, when they fire, and what an operator does to them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import click
from rich.console import Console

from sloppyjobs.cli import output
from sloppyjobs.cli.enqueue import json_value
from sloppyjobs.cli.paging import listing_group
from sloppyjobs.cli.params import Moment, Span, as_json, at, signed
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
            "[dim]-[/]" if one.paused else output.ago(one.next_run_at, now),
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


_SETTINGS = (
    click.option("--cron", metavar="EXPRESSION", help="Five fields, such as '30 2 * * *'."),
    click.option("--every", type=Span(), metavar="DURATION", help="An interval, such as 5m."),
    click.option("--at", "moment", type=Moment(future=True), metavar="INSTANT", help="Once, at this instant."),
    click.option("--timezone", metavar="ZONE", help="The zone of the expression, such as Europe/Paris."),
    click.option("--payload", metavar="JSON", help="JSON; @file takes it from a file, and - from standard input."),
    click.option("--queue", metavar="TEXT", help="Another queue than the definition's."),
    click.option("--priority", type=int, metavar="N", help="Higher runs first."),
    click.option(
        "--misfire",
        type=click.Choice([one.value for one in timetable.Misfire]),
        help="What to do with missed occurrences.",
    ),
    click.option("--catch-up-limit", type=int, metavar="N", help="How many are made up for at most."),
)


def _settings(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_SETTINGS):
        command = option(command)
    return command


def _given(target: Target, moment: datetime | timedelta | None, options: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given, as the admin takes them."""
    if target.app is None and target.given is None:
        raise click.UsageError("the application says which jobs there are: sloppyjobs --app module:jobs recurring …")
    options["at"] = at(moment, target.now)
    given = {name: value for name, value in options.items() if value is not None}
    if "payload" in given:
        given["payload"] = json_value(given["payload"], "--payload")
    return given


@recurring.command()
@click.argument("name")
@click.argument("job_name", metavar="JOB")
@_settings
@click.option("--paused", is_flag=True, help="It does not fire until it is resumed.")
@signed
@as_json
@pass_target
def create(
    target: Target,
    /,
    name: str,
    job_name: str,
    moment: datetime | timedelta | None,
    as_json: bool,
    actor: str | None,
    reason: str | None,
    **options: Any,
) -> None:
    """Make a schedule that no code declares, of one of --cron, --every and --at."""
    given = _given(target, moment, options)
    payload = given.pop("payload", None)
    _say(target, target.admin.create_recurring(name, job_name, payload, actor=actor, reason=reason, **given), as_json)


@recurring.command()
@click.argument("name")
@_settings
@click.option("--no-queue", is_flag=True, help="Use the definition's queue again.")
@click.option("--no-priority", is_flag=True, help="Use the definition's priority again.")
@signed
@as_json
@pass_target
def edit(
    target: Target,
    /,
    name: str,
    moment: datetime | timedelta | None,
    no_queue: bool,
    no_priority: bool,
    as_json: bool,
    actor: str | None,
    reason: str | None,
    **options: Any,
) -> None:
    """Change a schedule that no code declares; what is not given stays as it is.

    Another timing takes the place of the one that it has. One that is declared in code is changed there.
    """
    changes = _given(target, moment, options)
    for field, back in (("queue", no_queue), ("priority", no_priority)):
        if back and field in changes:
            raise click.UsageError(f"--{field} and --no-{field} exclude each other")
        changes |= {field: None} if back else {}
    if not changes:
        raise click.UsageError("say what changes, such as --every 5m")
    _say(target, target.admin.edit_recurring(name, actor=actor, reason=reason, **changes), as_json)


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
        now, timezone = target.now(), one.timezone
        found = one.upcoming(count, now)

    def render(out: Console) -> None:
        if output.nothing(out, found, "occurrences"):
            return
        made = output.table("OCCURRENCE (UTC)", f"IN {timezone}", "", whole=("OCCURRENCE (UTC)",))
        for moment in found:
            there = moment.astimezone(find_zone(timezone))
            made.add_row(f"{moment:%Y-%m-%d %H:%M:%S}", f"{there:%a %Y-%m-%d %H:%M:%S %Z}", output.ago(moment, now))
        out.print(made)

    output.emit({"items": found}, as_json, render)
