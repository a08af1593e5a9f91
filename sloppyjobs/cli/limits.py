"""``limits``: what resources allow, who holds their permits, and changes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click
from rich.console import Console

from sloppyjobs.admin.limits import KEEP
from sloppyjobs.cli import output
from sloppyjobs.cli.paging import listing_group
from sloppyjobs.cli.params import Span, as_json, signed
from sloppyjobs.cli.target import Target, pass_target
from sloppyjobs.domain.limit_words import limit_words
from sloppyjobs.views import LimitDetails, LimitView, Page

_CUT = ("NAME", "PARTITION", "WORKER")


def _render(out: Console, page: Page[LimitView], _now: datetime) -> None:
    if output.nothing(out, page.items, "limits"):
        return
    numbers = ("HELD", "WAITING")
    made = output.table("RESOURCE", "EACH PARTITION", *numbers, "STATE", right=numbers, cut=("RESOURCE",))
    for limit in page:
        words = limit_words(limit.concurrency, limit.rate, limit.per)
        made.add_row(
            output.plain(limit.name), words, output.count(limit.held), output.count(limit.waiting), _state(limit)
        )
    out.print(made)


def _state(limit: LimitView) -> str:
    if limit.vanished:
        return "[yellow]no longer declared in code: limits nothing[/]"
    if limit.changed:
        return "declared in code, changed since"
    return "declared in code" if limit.declared else "set at run time"


limits = listing_group(
    "limits",
    "List limits, see who holds permits, and change them.",
    "List limits.",
    lambda admin: admin.list_limits,
    _render,
)


@limits.command()
@click.argument("name")
@as_json
@pass_target
def show(target: Target, name: str, as_json: bool) -> None:
    """Show the partitions of a resource and who holds its permits."""
    details = target.admin.limit_details(name)
    output.emit(details, as_json, lambda out: _details(out, details, target.now()))


def _details(out: Console, details: LimitDetails, now: datetime) -> None:
    _say(out, details.limit)
    if details.partitions:
        made = output.table("PARTITION", "HELD", "WAITING", right=("HELD", "WAITING"), cut=("PARTITION",))
        for one in details.partitions:
            made.add_row(output.plain(one.partition or ""), output.count(one.held), output.count(one.waiting))
        out.print(made)
    if details.holders:
        made = output.table("HOLDER", "NAME", "PARTITION", "SINCE", "WORKER", whole=("HOLDER", "SINCE"), cut=_CUT)
        for permit in details.holders:
            made.add_row(
                output.plain(permit.job_id or "a job in another queue"),
                output.plain(permit.name or ""),
                output.plain(permit.partition or ""),
                output.ago(permit.taken_at, now),
                output.plain(permit.worker_id or ""),
            )
        output.draw(out, made)


@limits.command(name="set")
@click.argument("name")
@click.option("--concurrency", type=int, metavar="N", help="How many jobs run at once, in each partition.")
@click.option("--no-concurrency", is_flag=True, help="Let any number run at once.")
@click.option("--rate", type=int, metavar="N", help="How many jobs start in the span of --per, in each partition.")
@click.option("--per", type=Span(), metavar="DURATION", help="The span of --rate, such as 60 or 1m.")
@click.option("--no-rate", is_flag=True, help="Let any number start.")
@click.option("--create", is_flag=True, help="Make a limit that is not there yet.")
@signed
@as_json
@pass_target
def set_(
    target: Target,
    name: str,
    concurrency: int | None,
    no_concurrency: bool,
    rate: int | None,
    per: float | None,
    no_rate: bool,
    create: bool,
    actor: str | None,
    reason: str | None,
    as_json: bool,
) -> None:
    """Change a limit; what is not given stays as it is."""
    if no_concurrency and concurrency is not None:
        raise click.UsageError("--concurrency and --no-concurrency exclude each other")
    if no_rate and (rate is not None or per is not None):
        raise click.UsageError("--no-rate excludes --rate and --per")
    values: dict[str, Any] = {"concurrency": KEEP if concurrency is None else concurrency}
    values |= {"rate": KEEP if rate is None else rate, "per": KEEP if per is None else per}
    if no_concurrency:
        values["concurrency"] = None
    if no_rate:
        values |= {"rate": None, "per": None}
    limit = target.admin.set_limit(name, **values, create=create, actor=actor, reason=reason)
    output.emit(limit, as_json, lambda out: _say(out, limit))


@limits.command()
@click.argument("name")
@signed
@as_json
@pass_target
def delete(target: Target, name: str, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Remove a limit; whoever waits for its permits goes on."""
    gone = target.admin.delete_limit(name, actor=actor, reason=reason)
    output.emit(gone, as_json, lambda out: out.print(f"{output.plain(gone.name)} is not limited any more"))


@limits.command()
@click.argument("job_id", metavar="JOB")
@signed
@as_json
@pass_target
def release(target: Target, job_id: str, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Take the permit away from a job, whose handler may still run, and let the next in line start."""
    job = target.admin.release_permit(target.admin.whole_id(job_id), actor=actor, reason=reason)
    output.emit(job, as_json, lambda out: out.print(f"{job.id} holds no permit any more; it may still run"))


def _say(out: Console, limit: LimitView) -> None:
    words = limit_words(limit.concurrency, limit.rate, limit.per)
    out.print(f"{output.plain(limit.name)}: {words} in each partition; {limit.held:,} held, {limit.waiting} waiting")
