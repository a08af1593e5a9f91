"""``retry``, ``cancel``, ``delete``, ``pause``, ``resume`` and ``run-now``.

On single jobs by their ids, or on all that a filter finds.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from sloppyjobs.cli import output
from sloppyjobs.cli.listing import render_jobs
from sloppyjobs.cli.params import as_json, filtered, settled, signed
from sloppyjobs.cli.root import refusal
from sloppyjobs.cli.target import Target, as_typed, pass_target
from sloppyjobs.errors import JobsError
from sloppyjobs.views import BulkResult, JobView

AT_ONCE = 500
"""Jobs between two steps of the progress that a terminal shows."""

_COLUMNS = (SpinnerColumn(), TextColumn("{task.description}: {task.completed:,.0f} jobs"), TimeElapsedColumn())
_DONE = {
    "retry": "retried",
    "cancel": "cancelled",
    "delete": "deleted",
    "pause": "paused",
    "resume": "resumed",
    "run_now": "queued",
}


def _command(action: str, text: str) -> click.Command:
    verb = action.replace("_", "-")

    @click.command(verb, help=text)
    @click.argument("ids", nargs=-1, metavar="[ID]...")
    @filtered
    @click.option(
        "--limit",
        type=click.IntRange(1, 10_000),
        default=1000,
        show_default=True,
        help="How many at most, of those that the filters find; oldest first.",
    )
    @click.option("--dry-run", is_flag=True, help="Show what the filters find, and change nothing.")
    @click.option("--yes", is_flag=True, help="Do not ask.")
    @signed
    @as_json
    @pass_target
    def run(
        target: Target,
        ids: tuple[str, ...],
        filters: dict[str, Any],
        limit: int,
        dry_run: bool,
        yes: bool,
        actor: str | None,
        reason: str | None,
        as_json: bool,
    ) -> None:
        if bool(ids) == bool(filters):
            raise click.UsageError(f"give the ids of jobs to {verb}, or filters such as --status and --name")
        signature = {"actor": actor, "reason": reason}
        if ids and dry_run:
            raise click.UsageError("--dry-run is for filters; `show` and `explain` say what can be done with a job")
        if dry_run:
            _preview(target, action, settled(filters, target.now), limit, as_json)
        elif ids:
            _on_each(target, action, ids, signature, as_json)
        else:
            _on_all(target, action, settled(filters, target.now), limit, yes, signature, as_json)

    return run


def _on_each(
    target: Target, action: str, ids: tuple[str, ...], signature: dict[str, str | None], as_json: bool
) -> None:
    done: list[JobView] = []
    refused = 0
    for job_id in ids:
        try:
            done.append(getattr(target.admin, action)(target.admin.whole_id(job_id), **signature))
        except JobsError as error:
            if len(ids) == 1:
                raise
            refused += 1
            click.echo(f"Error: {as_typed(refusal(error))}", err=True)

    def render(out: Console) -> None:
        for job in done:
            out.print(f"{job.id} is {output.word(job.status)}", soft_wrap=True)

    output.emit({"items": done}, as_json, render)
    if refused:
        click.get_current_context().exit(1)


def _on_all(
    target: Target,
    action: str,
    filters: dict[str, Any],
    limit: int,
    yes: bool,
    signature: dict[str, str | None],
    as_json: bool,
) -> None:
    if not yes and not _confirmed(target, action, filters, limit):
        raise click.Abort
    result = _in_parts(target, action, filters, limit, signature)
    output.emit(result, as_json, lambda out: _render_result(out, action, result))


def _in_parts(
    target: Target, action: str, filters: dict[str, Any], limit: int, signature: dict[str, str | None]
) -> BulkResult:
    """The whole command, part by part; how far it is shows at a terminal."""
    err = output.console(stderr=True)
    cursor = None
    with Progress(*_COLUMNS, console=err, transient=True, disable=not err.is_terminal) as progress:
        shown = progress.add_task(action.replace("_", "-"), total=None)
        while True:
            result = target.admin.bulk(
                action,
                filters,
                limit,
                actor=signature["actor"],
                reason=signature["reason"],
                at_once=AT_ONCE,
                cursor=cursor,
            )
            progress.update(shown, completed=result.matched)
            cursor = result.next_cursor
            if cursor is None:
                return result


def _preview(target: Target, action: str, filters: dict[str, Any], limit: int, as_json: bool) -> None:
    """Show what would happen."""
    preview = target.admin.bulk(action, filters, limit, dry_run=True)

    def render(out: Console) -> None:
        _render_preview(out, action, preview, target.now())
        if preview.done:
            out.print(f"would {_question(action, preview, limit)}; nothing was changed")

    output.emit(preview, as_json, render)


def _confirmed(target: Target, action: str, filters: dict[str, Any], limit: int) -> bool:
    """Show what would happen, and ask."""
    preview = target.admin.bulk(action, filters, limit, dry_run=True)
    _render_preview(output.console(stderr=True), action, preview, target.now())
    if preview.done == 0:
        click.get_current_context().exit(0)
    return click.confirm(f"{_question(action, preview, limit)}?", err=True)


def _render_preview(out: Console, action: str, preview: BulkResult, now: datetime) -> None:
    if preview.done == 0:
        _render_result(out, action, preview)
        return
    render_jobs(out, preview.sample, now)
    if preview.matched > len(preview.sample):
        out.print(f"[dim]… and {preview.matched - len(preview.sample):,} more[/]")
    _render_skipped(out, preview)


def _question(action: str, preview: BulkResult, limit: int) -> str:
    beyond = f" (the oldest {limit:,}; there are more)" if preview.more else ""
    return f"{action.replace('_', '-')} {preview.done:,} {_jobs(preview.done)}{beyond}"


def _render_result(out: Console, action: str, result: BulkResult) -> None:
    if result.matched == 0 and not result.skipped:
        out.print("[dim]no jobs found[/]")
        return
    out.print(f"{_DONE[action]} {result.done:,} of {result.matched:,} {_jobs(result.matched)}")
    _render_skipped(out, result)
    if result.more:
        out.print("[dim]there may be more: run the same again[/]")


def _render_skipped(out: Console, result: BulkResult) -> None:
    for why, number in result.skipped.items():
        out.print(f"skipped {number:,}: {output.plain(why)}")


def _jobs(number: int) -> str:
    return "job" if number == 1 else "jobs"


_ASKS = "With filters it shows what it found, and asks."

retry = _command("retry", f"Queue dead jobs again, with fresh attempts.\n\n{_ASKS}")
cancel = _command(
    "cancel",
    f"Cancel jobs that have not finished.\n\nA running handler is told, and what it returns is ignored. {_ASKS}",
)
delete = _command("delete", f"Delete finished or queued jobs; a purge removes them later.\n\n{_ASKS}")
pause = _command("pause", f"Hold jobs back until they are resumed.\n\nNot those that run already. {_ASKS}")
resume = _command("resume", f"Put paused jobs back to where they were.\n\n{_ASKS}")
run_now = _command("run_now", f"Queue scheduled, retrying or paused jobs at once.\n\n{_ASKS}")
