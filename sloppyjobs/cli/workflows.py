"""``workflows``: named graphs of jobs, how they stand, and the commands on all of their jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

import click
import msgspec
from rich.console import Console

from sloppyjobs.cli import output
from sloppyjobs.cli.paging import more
from sloppyjobs.cli.params import Moment, as_json, at, paged, signed
from sloppyjobs.cli.target import Target, pass_target
from sloppyjobs.domain.workflows import WorkflowStatus
from sloppyjobs.views import Blocker, BulkResult, Page, WorkflowJobView, WorkflowView

STYLES = {"running": "processing", "blocked": "dead"}
"""The status of jobs whose colour a status of workflows has."""
_FILTERS: tuple[tuple[str, Any, str], ...] = (
    ("name", str, "A workflow's name."),
    ("correlation-id", str, "The workflow's correlation id."),
    ("created-from", Moment(), "Enqueued at or after; an instant, or 2h for two hours ago."),
    ("created-to", Moment(), "Enqueued before."),
)


def _filtered(command: Callable[..., Any]) -> Callable[..., Any]:
    command = as_json(paged()(command))
    for name, kind, text in reversed(_FILTERS):
        metavar = "INSTANT" if isinstance(kind, Moment) else "TEXT"
        command = click.option(f"--{name}", type=kind, metavar=metavar, help=text)(command)
    statuses = click.Choice([status.value for status in WorkflowStatus])
    return click.option("--status", type=statuses, multiple=True, help="A status; may be given several times.")(command)


@click.group(invoke_without_command=True)
@_filtered
@click.pass_context
def workflows(ctx: click.Context, /, **given: Any) -> None:
    """List workflows, show, cancel and retry them."""
    if ctx.invoked_subcommand is None:
        _print(ctx.obj, **given)


@workflows.command("list")
@_filtered
@pass_target
def list_(target: Target, /, **given: Any) -> None:
    """List workflows: those that go on first, then newest first."""
    _print(target, **given)


def _print(
    target: Target, *, status: tuple[str, ...], page_size: int, cursor: str | None, as_json: bool, **given: Any
) -> None:
    for name in ("created_from", "created_to"):
        given[name] = at(given[name], target.now)
    page = target.admin.list_workflows(status or None, **given, cursor=cursor, page_size=page_size)
    output.emit(page, as_json, lambda out: _render(out, page, target.now()))
    more(page, as_json)


def _render(out: Console, page: Page[WorkflowView], now: datetime) -> None:
    if output.nothing(out, page.items, "workflows"):
        return
    made = output.table(
        "ID",
        "STATUS",
        "NAME",
        "DONE",
        "JOBS",
        "AGE",
        "TOOK",
        whole=("ID", "STATUS", "DONE", "AGE", "TOOK"),
        cut=("NAME", "JOBS"),
    )
    for one in page:
        made.add_row(
            one.id,
            _word(one.status),
            output.plain(one.name),
            f"{one.succeeded}/{one.jobs}",
            _counts(one),
            output.age((now - one.started_at).total_seconds()),
            _took(one),
        )
    output.draw(out, made, spare=("JOBS", "TOOK"))


def _word(status: WorkflowStatus) -> str:
    coloured = output.word(STYLES.get(status, status.value))
    return coloured.replace(STYLES.get(status, status.value), status.value) if status in STYLES else coloured


def _counts(one: WorkflowView) -> str:
    return ", ".join(f"{number} {status}" for status, number in one.counts.items())


def _took(one: WorkflowView) -> str:
    return "" if one.finished_at is None else output.duration((one.finished_at - one.started_at).total_seconds())


@workflows.command()
@click.argument("id")
@paged()
@as_json
@pass_target
def show(target: Target, id: str, page_size: int, cursor: str | None, as_json: bool) -> None:
    """Show a workflow: how it stands, what holds it up, and its jobs."""
    admin = target.admin
    found = admin.get_workflow(id)
    jobs = admin.workflow_jobs(id, cursor=cursor, page_size=page_size)
    blockers = admin.workflow_blockers(id)
    document = {**msgspec.structs.asdict(found), "percent": found.percent, "blockers": blockers, "members": jobs}
    output.emit(document, as_json, lambda out: _render_one(out, found, blockers, jobs, target.now()))
    more(jobs, as_json)


def _render_one(
    out: Console, found: WorkflowView, blockers: tuple[Blocker, ...], jobs: Page[WorkflowJobView], now: datetime
) -> None:
    cancelled = None
    if found.cancelled_at is not None:
        by = f" by {found.cancelled_by}" if found.cancelled_by else ""
        why = f": {found.cancel_reason}" if found.cancel_reason else ""
        cancelled = f"{output.ago(found.cancelled_at, now)}{output.plain(by + why)}"
    metadata = output.plain(output.inline(found.metadata)) if found.metadata else None
    rows = (
        ("id", found.id),
        ("name", output.plain(found.name)),
        ("status", _word(found.status)),
        ("jobs", f"{found.jobs}: {_counts(found)}"),
        ("done", f"{found.percent:g} %"),
        ("started", output.stamp(found.started_at, now)),
        ("finished", output.stamp(found.finished_at, now)),
        ("cancelled", cancelled),
        ("correlation", output.plain(found.correlation_id) or None),
        ("metadata", metadata),
    )
    out.print(output.fields(rows))
    for one in blockers:
        waits = f"{one.waiting} job{'s wait' if one.waiting != 1 else ' waits'} for it"
        out.print(f"[bold red]dead[/] {output.plain(one.name)} {one.job_id}: {output.plain(one.error_type)}; {waits}")
    made = output.table("JOB", "STATUS", "NAME", "AFTER", whole=("JOB", "STATUS"), cut=("NAME", "AFTER"))
    for job in jobs:
        made.add_row(str(job.id), output.word(job.status), output.plain(job.name), _after(job))
    out.print(made)


def _after(job: WorkflowJobView) -> str:
    """What it waits for, jobs of one name together: ``8 transform (failure)``."""
    found = Counter(
        f"{link.name}{'' if link.needs == 'success' else f' ({link.needs})'}{f' if {link.when}' if link.when else ''}"
        for link in job.after
    )
    parts = [name if number == 1 else f"{number:,} {name}" for name, number in found.items()][:3]
    rest = len(found) - 3
    return output.plain(", ".join(parts) + (f" and {rest} more" if rest > 0 else ""))


@workflows.command()
@click.argument("id")
@signed
@as_json
@pass_target
def cancel(target: Target, id: str, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Cancel every job of a workflow that has not ended; dead jobs stay dead."""
    done = target.admin.cancel_workflow(id, actor=actor, reason=reason)
    output.emit(done, as_json, lambda out: _say(out, done, "cancelled"))


@workflows.command()
@click.argument("id")
@signed
@as_json
@pass_target
def retry(target: Target, id: str, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Retry the dead jobs of a workflow; what waits for them goes on.

    What was cancelled stays cancelled.
    """
    done = target.admin.retry_workflow(id, actor=actor, reason=reason)
    output.emit(done, as_json, lambda out: _say(out, done, "retried"))


def _say(out: Console, done: BulkResult, word: str) -> None:
    out.print(f"{done.done} job{'s' if done.done != 1 else ''} {word}")
    for reason, number in done.skipped.items():
        out.print(f"{number} left alone: {output.plain(reason)}")
