"""``alerts``: the rules, what was sent to whom, a test, and mutes."""

from __future__ import annotations

from datetime import datetime, timedelta

import click
from rich.console import Console

from sloppyjobs.cli import output
from sloppyjobs.cli.paging import more
from sloppyjobs.cli.params import as_json, at, ending, paged, signed
from sloppyjobs.cli.target import Target, pass_target
from sloppyjobs.views import AlertRuleView, AlertView, Page

_STYLES = {"told": "green", "pending": "blue", "retrying": "yellow", "failed": "bold red", "muted": "dim"}
_WORDS = {"told": "sent", "failed": "not sent"}


@click.group(invoke_without_command=True)
@as_json
@click.pass_context
def alerts(ctx: click.Context, as_json: bool) -> None:
    """List the rules for alerts, see what was sent to whom, send a test, mute and unmute them."""
    if ctx.invoked_subcommand is None:
        target: Target = ctx.obj
        rules = target.admin.list_alert_rules()
        output.emit({"items": rules}, as_json, lambda out: _render_rules(out, rules, target.now()))


def _render_rules(out: Console, rules: tuple[AlertRuleView, ...], now: datetime) -> None:
    if output.nothing(out, rules, "rules for alerts"):
        return
    made = output.table("RULE", "WHEN", "WINDOW", "SENT TO", "LAST", "STATE", whole=("RULE",), cut=("SENT TO",))
    for rule in rules:
        state = "[bold red]open[/]" if rule.open else "[green]quiet[/]"
        state = f"[yellow]{_muted(rule, now)}[/]" if rule.muted else state
        made.add_row(
            output.plain(rule.name),
            output.plain(rule.when),
            output.duration(rule.window),
            output.plain(rule.target),
            output.ago(rule.last_alert_at, now) or "[dim]never[/]",
            state if rule.declared else "[yellow]no longer declared in code[/]",
        )
    out.print(made)


def _muted(rule: AlertRuleView, now: datetime) -> str:
    return "muted" if rule.muted_until is None else f"muted, ends {output.ago(rule.muted_until, now)}"


@alerts.command("list")
@click.option("--rule", metavar="NAME", help="Of one rule.")
@paged()
@as_json
@pass_target
def list_(target: Target, rule: str | None, page_size: int, cursor: str | None, as_json: bool) -> None:
    """List what was sent to whom and when, latest first."""
    page = target.admin.list_alerts(rule, cursor=cursor, page_size=page_size)
    output.emit(page, as_json, lambda out: _render(out, page, target.now()))
    more(page, as_json)


def _render(out: Console, page: Page[AlertView], now: datetime) -> None:
    if output.nothing(out, page.items, "alerts"):
        return
    made = output.table(
        "WHEN", "RULE", "OUTCOME", "TRIES", "TO", "WHAT", whole=("WHEN", "RULE", "OUTCOME"), cut=("TO",)
    )
    for one in page:
        made.add_row(
            output.ago(one.created_at, now),
            output.plain(one.rule),
            f"[{_STYLES[one.status]}]{_WORDS.get(one.status, one.status)}[/]",
            str(one.tries),
            output.plain(one.target),
            output.plain(one.text if one.error is None else f"{one.text} ({one.error})"),
        )
    output.draw(out, made, spare=("TRIES", "TO"))


@alerts.command()
@click.argument("rule")
@signed
@as_json
@pass_target
def test(target: Target, rule: str, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Send a test of a rule, delivered as real alerts are."""
    sent = target.admin.test_alert(rule, actor=actor, reason=reason)
    said = f"a test of {output.plain(sent.rule)} to {output.plain(sent.target)} is queued: {sent.job_id}"
    output.emit(sent, as_json, lambda out: out.print(said, soft_wrap=True))


@alerts.command()
@click.argument("rule")
@ending
@signed
@as_json
@pass_target
def mute(
    target: Target,
    rule: str,
    until: datetime | timedelta | None,
    actor: str | None,
    reason: str | None,
    as_json: bool,
) -> None:
    """Mute a rule: what it finds is listed, but not sent to anybody."""
    found = target.admin.mute_alert(rule, at(until, target.now), actor=actor, reason=reason)
    said = f"rule {output.plain(found.name)} is {_muted(found, target.now())}"
    output.emit(found, as_json, lambda out: out.print(said))


@alerts.command()
@click.argument("rule")
@signed
@as_json
@pass_target
def unmute(target: Target, rule: str, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Unmute a rule, so that its alerts are sent again."""
    found = target.admin.unmute_alert(rule, actor=actor, reason=reason)
    output.emit(found, as_json, lambda out: out.print(f"alerts of rule {output.plain(found.name)} are sent again"))
