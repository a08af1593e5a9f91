"""``mark-deploy`` and ``deploys``: when which version of the application went live."""

from __future__ import annotations

from datetime import datetime

import click
from rich.console import Console

from sloppyjobs.cli import output
from sloppyjobs.cli.paging import listing
from sloppyjobs.cli.params import as_json, signed
from sloppyjobs.cli.target import Target, pass_target
from sloppyjobs.views import DeployView, Page


@click.command("mark-deploy")
@click.argument("version")
@click.option("--note", metavar="TEXT", help="What is new, in up to 500 characters.")
@signed
@as_json
@pass_target
def mark_deploy(
    target: Target, version: str, note: str | None, actor: str | None, reason: str | None, as_json: bool
) -> None:
    """Mark that a version of the application is deployed now; charts show it.

    The version of the latest deploy is not marked again, so that a script may be repeated.
    """
    made = target.admin.mark_deploy(version, note, actor=actor, reason=reason)
    output.emit(made, as_json, lambda out: out.print(_said(made, target.now()), soft_wrap=True))


def _said(made: DeployView, now: datetime) -> str:
    if made.existing:
        return f"{output.plain(made.version)} is already marked ({output.ago(made.created_at, now)})"
    return f"marked the deploy of {output.plain(made.version)}"


def _render(out: Console, page: Page[DeployView], now: datetime) -> None:
    if output.nothing(out, page.items, "deploys"):
        return
    named = any(one.application for one in page)
    columns = ("WHEN", "VERSION", *(("APPLICATION",) if named else ()), "MARKED BY", "NOTE")
    made = output.table(*columns, whole=("WHEN",))
    shown = output.id_for(out)
    for one in page:
        by = shown(one.worker_id) if one.worker_id else one.actor or ""
        by = by if one.worker_id is None or by.startswith("worker") else f"worker {by}"
        application = (output.plain(one.application or ""),) if named else ()
        when = output.ago(one.created_at, now)
        made.add_row(when, output.plain(one.version), *application, output.plain(by), output.plain(one.note or ""))
    out.print(made)


deploys = listing(
    "deploys",
    "List deploys, latest first: when which version of the application went live.",
    lambda admin: admin.list_deploys,
    _render,
)
