"""``job-types``: which there are, and how one of them does."""

from __future__ import annotations

import click
import msgspec
from rich.console import Console

from sloppyjobs.cli import output
from sloppyjobs.cli.params import as_json
from sloppyjobs.cli.target import Target, pass_target
from sloppyjobs.domain.spreads import Spread
from sloppyjobs.views import JobTypeView


class _Names(msgspec.Struct, frozen=True):
    items: tuple[str, ...]


@click.command("job-types")
@click.argument("name", required=False)
@click.option("--minutes", type=int, default=60, show_default=True, metavar="N", help="How far to look back.")
@as_json
@pass_target
def job_types(target: Target, name: str | None, minutes: int, as_json: bool) -> None:
    """List job types that are defined or were run lately; with NAME, show how one of them does.

    Percentiles are of its latest 500 runs.
    """
    if name is None:
        names = target.admin.known_names().names
        output.emit(_Names(names), as_json, lambda out: _render_names(out, names))
        return
    view = target.admin.get_job_type(name, minutes=minutes)
    output.emit(view, as_json, lambda out: _render(out, view))


def _render_names(out: Console, names: tuple[str, ...]) -> None:
    if not output.nothing(out, names, "job types"):
        made = output.table("NAME")
        for name in names:
            made.add_row(output.plain(name))
        out.print(made)


def _render(out: Console, view: JobTypeView) -> None:
    total = view.stats.total
    out.print(f"[bold]{output.plain(view.name)}[/]")
    out.print(f"{view.queued} queued, {view.running} running, {view.scheduled} for later, {view.dead} dead")
    out.print(
        f"last {view.minutes:,} minutes: {total.succeeded:,} succeeded, {total.failed:,} failed attempts, "
        f"{total.dead:,} deaths"
    )
    made = output.table(f"LATEST {view.sample.runs:,} RUNS", "P50", "P95", "P99", "LONGEST")
    made.add_row("run time", *_cells(view.sample.run))
    made.add_row("waiting time", *_cells(view.sample.wait))
    out.print(made)
    for what, names in (
        ("queues", view.queues),
        ("schedules", tuple(one.schedule for one in view.schedules)),
        ("workers", view.workers),
    ):
        if names:
            out.print(f"{what}: {', '.join(map(output.plain, names))}")
    for cause in view.causes:
        out.print(f"{cause.count} dead of {output.plain(cause.error_type or cause.error_code or 'no error')}")


def _cells(spread: Spread) -> list[str]:
    return [output.duration(value) for value in (spread.p50, spread.p95, spread.p99, spread.longest)]
