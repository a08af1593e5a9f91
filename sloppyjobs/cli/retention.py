"""``cleanup`` and ``purge``: batch after batch, with a progress bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from sloppyjobs import retention
from sloppyjobs.cli import output
from sloppyjobs.cli.params import Span, as_json, signed
from sloppyjobs.cli.target import Target, pass_target

_AGE = Span(never=True)
# Distinct from "never", which is None as well.
_DEFAULT = -1.0


def _bounded(command: Any) -> Any:
    command = click.option(
        "--batch", type=click.IntRange(1, 10_000), default=1000, show_default=True, help="How many at a time."
    )(command)
    return click.option(
        "--limit", type=click.IntRange(1), help="Stop after so many jobs.  [default: when all is done]"
    )(command)


@click.command()
@click.option("--succeeded", type=_AGE, default=_DEFAULT, metavar="AGE", help="Age of succeeded jobs.  [default: 7d]")
@click.option("--cancelled", type=_AGE, default=_DEFAULT, metavar="AGE", help="Age of cancelled jobs.  [default: 30d]")
@click.option("--dead", type=_AGE, default=_DEFAULT, metavar="AGE", help="Age of dead jobs.  [default: 90d]")
@_bounded
@signed
@as_json
@pass_target
def cleanup(
    target: Target,
    /,
    batch: int,
    limit: int | None,
    actor: str | None,
    reason: str | None,
    as_json: bool,
    **ages: float | None,
) -> None:
    """Delete finished jobs that are old enough.

    Never an active job. An age counts from a job's end: 12h, 7d, 4w, or never. Deleted jobs can be listed until a
    purge removes them.
    """
    given = {name: age for name, age in ages.items() if age != _DEFAULT}
    deleted = dict.fromkeys(retention.AGES, 0)
    target.jobs.storage.ensure_schema()
    with progress_bar("deleting old jobs", limit, as_json) as advance:
        for size in _batches(batch, limit):
            done = target.admin.cleanup(size, given, actor=actor, reason=reason)
            for name, number in done.deleted.items():
                deleted[name] += number
            advance(done.total)
            if not done.more:
                break
    total = sum(deleted.values())

    def render(out: Console) -> None:
        parts = ", ".join(f"{number:,} {name}" for name, number in deleted.items())
        out.print(f"deleted {total:,} jobs: {parts}")

    output.emit({"deleted": deleted, "total": total}, as_json, render)


@click.command()
@click.option("--older-than", type=Span(), default="1d", show_default=True, metavar="AGE", help="Deleted so long ago.")
@click.option("--archive", is_flag=True, help="Move the jobs to the archive, history included.")
@click.option("--audit-older-than", type=Span(), metavar="AGE", help="Remove audit entries too.  [default: keep all]")
@_bounded
@click.option("--yes", is_flag=True, help="Do not ask.")
@signed
@as_json
@pass_target
def purge(
    target: Target,
    older_than: float,
    archive: bool,
    audit_older_than: float | None,
    batch: int,
    limit: int | None,
    yes: bool,
    actor: str | None,
    reason: str | None,
    as_json: bool,
) -> None:
    """Remove or archive deleted jobs for good.

    Their attempts, events and logs go with them. Old counters, workers that are long gone and expired locks are removed
    too.
    """
    target.jobs.storage.ensure_schema()
    if not yes and not archive:
        question = f"remove jobs for good that were deleted more than {output.duration(older_than)} ago?"
        click.confirm(question, abort=True, err=True)
    totals = dict.fromkeys(("jobs", "stats", "stats_rolled_up", "workers", "locks", "audit"), 0)
    with progress_bar("archiving jobs" if archive else "removing jobs", limit, as_json) as advance:
        for size in _batches(batch, limit):
            done = target.admin.purge(
                size, older_than, archive, audit_older_than=audit_older_than, actor=actor, reason=reason
            )
            for name in totals:
                totals[name] += getattr(done, name)
            advance(done.jobs)
            if not done.more or (limit is not None and totals["jobs"] >= limit):
                break
    verb = "archived" if archive else "removed"

    def render(out: Console) -> None:
        out.print(f"{verb} {totals['jobs']:,} jobs")
        rest = {"counters": "stats", "workers": "workers", "locks": "locks", "audit entries": "audit"}
        parts = [f"{totals[name]:,} {label}" for label, name in rest.items() if totals[name]]
        if parts:
            out.print(f"removed {', '.join(parts)}")

    output.emit({**totals, "archived": archive}, as_json, render)


def _batches(batch: int, limit: int | None) -> Iterator[int]:
    left = limit
    while left is None or left > 0:
        size = batch if left is None else min(batch, left)
        yield size
        left = None if left is None else left - size


@contextmanager
def progress_bar(what: str, limit: int | None, quiet: bool) -> Iterator[Any]:
    """A bar on stderr, where that is a terminal."""
    out = output.console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=out, disable=quiet or not out.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=limit)
        yield lambda number: bar.advance(task, number)
