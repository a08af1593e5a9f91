"""``status``, ``dead``, ``locks`` and ``audit``: what there is, at a glance."""

from __future__ import annotations

from datetime import datetime

import click
import msgspec
from rich.console import Console

from sloppyjobs.cli import output
from sloppyjobs.cli.paging import listing, more
from sloppyjobs.cli.params import as_json, paged
from sloppyjobs.cli.target import Target, as_typed, pass_target
from sloppyjobs.views import AuditEntry, DeadGroup, Fire, LockView, Overview, Page, StatsBucket
from sloppyjobs.views.encryption import EncryptionView


@click.command()
@as_json
@pass_target
def status(target: Target, as_json: bool) -> None:
    """The state of everything at a glance."""
    overview = target.admin.overview()
    hour = target.admin.stats(60).total
    encryption = target.admin.encryption()
    document = {**msgspec.structs.asdict(overview), "last_hour": hour, "encryption": encryption}

    def render(out: Console) -> None:
        render_status(out, overview, hour)
        _render_encryption(out, encryption)

    output.emit(document, as_json, render)


def render_status(out: Console, overview: Overview, hour: StatsBucket) -> None:
    """Draw an overview."""
    counted = output.table("STATUS", "JOBS", "OLDEST", right=("JOBS", "OLDEST"))
    for one in overview.statuses:
        if one.count or one.status in ("queued", "processing", "dead"):
            counted.add_row(output.word(one.status), output.count(one.count), output.age(one.oldest_seconds))
    out.print(counted)
    out.print()
    out.print(
        f"last hour: {hour.succeeded:,} succeeded, {hour.failed:,} failed attempts, {hour.dead:,} deaths, "
        f"{hour.cancelled:,} cancelled"
    )
    out.print(f"workers: {overview.live_workers} live, {overview.slots:,} slots")
    _render_attention(out, overview)
    _render_fires(out, "next", overview.next_fires[:3], overview.taken_at, "bold")
    if overview.dead_groups:
        out.print()
        _render_groups(out, overview.dead_groups, overview.taken_at)


def _render_encryption(out: Console, seen: EncryptionView) -> None:
    """Which keys are in use, where any are."""
    if seen.on:
        old = f"; {seen.outdated:,} texts or more are under an older key" if seen.outdated else ""
        clear = f"; {seen.in_the_clear:,} or more are in the clear" if seen.in_the_clear else ""
        advice = as_typed(" [dim]→ `sloppyjobs rekey`[/]") if old or clear else ""
        out.print(f"encryption: on, with key {seen.keys[0]}{old}{clear}{advice}")
    if seen.missing:
        out.print(f"[bold red]encryption: keys that are not here: {', '.join(seen.missing)}[/]")


def _render_attention(out: Console, overview: Overview) -> None:
    """What needs an operator, in the words of the admin page; dead jobs have a table of their own."""
    for one in overview.attention:
        if one.code == "dead":
            continue
        style = {"bad": "bold red", "warn": "yellow"}.get(one.level, "bold")
        facts = [f"{one.count} queued"] if one.code in ("queue_without_worker", "queue_paused") else []
        facts += [output.ago(one.since, overview.taken_at)] if one.since else []
        advice = f"{one.advice[:-1]}: {as_typed(f'`{one.command}`')}" if one.command else one.advice
        more = f" And {one.more} more." if one.more else ""
        told = f" ({', '.join(facts)})" if facts else ""
        out.print(f"[{style}]{output.plain(one.text)}[/]{told} [dim]→ {output.plain(advice)}{more}[/]")


def _render_fires(out: Console, label: str, fires: tuple[Fire, ...], now: datetime, style: str) -> None:
    if fires:
        shown = ", ".join(f"{output.plain(fire.schedule)} {output.ago(fire.at, now)}" for fire in fires)
        out.print(f"[{style}]{label}:[/] {shown}")


@click.command()
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="How many causes.")
@as_json
@pass_target
def dead(target: Target, limit: int, as_json: bool) -> None:
    """Group dead jobs by their cause.

    A cause is the job, the class of the error and the place in the application that raised it.
    """
    groups = target.admin.dead_groups(limit)
    output.emit({"items": groups}, as_json, lambda out: _render_groups(out, groups, target.now()))


def _render_groups(out: Console, groups: tuple[DeadGroup, ...], now: datetime) -> None:
    if output.nothing(out, groups, "dead jobs"):
        return
    made = output.table("DEAD", "CAUSE", "LAST", "EXAMPLE", whole=("LAST", "EXAMPLE"), right=("DEAD",))
    shown = output.id_for(out)
    for group in groups:
        cause = f"{output.plain(group.name)}: {output.plain(group.error_type or group.error_code or 'unknown')}"
        place = f"\n[dim]{output.plain(group.error_frame)}[/]" if group.error_frame else ""
        message = f"\n{output.plain(group.error_message, 100)}" if group.error_message else ""
        made.add_row(
            str(group.count),
            f"[bold]{cause}[/]{message}{place}",
            output.ago(group.last_seen, now),
            shown(group.example_id),
        )
    out.print(made)


def _render_locks(out: Console, page: Page[LockView], now: datetime) -> None:
    if output.nothing(out, page.items, "locks"):
        return
    made = output.table("LOCK", "OWNER", "ENDS", whole=("OWNER",))
    for lock in page:
        ends = output.ago(lock.locked_until, now)
        made.add_row(
            output.plain(lock.name), output.plain(lock.owner), f"[dim]expired {ends}[/]" if lock.expired else ends
        )
    out.print(made)


locks = listing("locks", "List named locks.", lambda admin: admin.list_locks, _render_locks)


@click.command()
@click.option("--target", "of", metavar="TARGET", help="What was done to a job id, a queue or a schedule.")
@click.option("--actor", metavar="NAME", help="What somebody did.")
@paged()
@as_json
@pass_target
def audit(target: Target, of: str | None, actor: str | None, page_size: int, cursor: str | None, as_json: bool) -> None:
    """List who commanded what, latest first."""
    page = target.admin.audit(of, actor, cursor=cursor, page_size=page_size)
    output.emit(page, as_json, lambda out: _render_audit(out, page, target.now()))
    more(page, as_json)


def _render_audit(out: Console, page: Page[AuditEntry], now: datetime) -> None:
    if output.nothing(out, page.items, "commands"):
        return
    made = output.table("WHEN", "ACTOR", "ACTION", "TARGET", "REASON", whole=("TARGET", "ACTION"))
    for entry in page:
        made.add_row(
            output.ago(entry.created_at, now),
            output.plain(entry.actor),
            output.plain(entry.action),
            output.plain(entry.target),
            output.plain(entry.reason),
        )
    out.print(made)
