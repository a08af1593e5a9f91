"""``list``, ``show`` and ``explain``: jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import click
import msgspec
from rich.console import Console

from sloppyjobs.cli import output
from sloppyjobs.cli.paging import more
from sloppyjobs.cli.params import as_json, filtered, paged, settled
from sloppyjobs.cli.target import Target, pass_target
from sloppyjobs.domain.redaction.redactor import Preview
from sloppyjobs.views import (
    AttemptView,
    DependenciesView,
    EventView,
    Explanation,
    JobRow,
    JobView,
    LogView,
    Page,
    StepView,
)

_CUT = ("NAME", "QUEUE", "NOTE")
_NARROW = ((17, 17), (10, 10), (12, 14), (8, 9), (3, 4), (5, 5), (8, None))
"""The least and the most width of each column below that."""
_ORDERS = ("created_at", "-created_at", "run_at", "-run_at")


@click.command("list")
@filtered
@click.option("--order", type=click.Choice(_ORDERS), default="-created_at", show_default=True, help="The order.")
@click.option("--all-pages", is_flag=True, help="Go on to the last page.")
@paged()
@as_json
@pass_target
def list_(
    target: Target,
    filters: dict[str, Any],
    order: str,
    all_pages: bool,
    page_size: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List jobs, newest first; deleted ones only when asked for."""
    given = settled(filters, target.now)

    def pages() -> Iterator[Page[JobRow]]:
        after = cursor
        while True:
            page = target.admin.list_jobs(**given, order=order, cursor=after, page_size=page_size)
            yield page
            after = page.next_cursor
            if after is None or not all_pages:
                return

    if as_json and all_pages:
        _stream(pages())
        return
    shown = 0
    now = target.now()
    for page in pages():
        output.emit(page, as_json, lambda out, page=page, first=shown == 0: render_jobs(out, page.items, now, first))  # type: ignore[misc]
        shown += len(page)
    more(page, as_json)


def _stream(pages: Iterator[Page[JobRow]]) -> None:
    """Every page as one document, without holding all of them."""
    click.echo('{"items": [', nl=False)
    between = "\n"
    for page in pages:
        for job in page:
            click.echo(between + output.json_line(job), nl=False)
            between = ",\n"
    click.echo('\n], "next_cursor": null, "previous_cursor": null}')


def render_jobs(out: Console, jobs: tuple[JobRow, ...], now: datetime, first: bool = True) -> None:
    """Draw a list of jobs."""
    if not jobs:
        if first:
            output.nothing(out, jobs, "jobs")
        return
    made = output.table(
        "ID", "STATUS", "NAME", "QUEUE", "AGE", "TRIES", "NOTE", whole=("ID", "STATUS", "AGE", "TRIES"), cut=_CUT
    )
    shown = output.id_for(out)
    if out.width < output.WIDE:
        for column, (least, most) in zip(made.columns, _NARROW, strict=True):
            column.min_width, column.max_width = least, most
    for job in jobs:
        made.add_row(
            shown(job.id),
            output.word(job.status),
            output.plain(job.name),
            output.plain(job.queue),
            output.age((now - job.created_at).total_seconds()),
            f"{job.attempt_count}/{job.max_attempts}",
            _note(job, now),
        )
    made.show_header = first
    out.print(made)


def _note(job: JobRow, now: datetime) -> str:
    """What is worth knowing of a job in its state."""
    if job.status in ("scheduled", "retrying"):
        return f"due {output.ago(job.run_at, now)}"
    if job.status == "processing":
        percent = "" if job.progress is None else f"{job.progress:.0f} % "
        return f"{percent}{output.plain(job.progress_message, 40)}".strip()
    if job.status == "dead":
        return output.plain((job.error_type or job.error_code or "").rpartition(".")[2], 60)
    return ""


@click.command()
@click.argument("id")
@as_json
@pass_target
def show(target: Target, id: str, as_json: bool) -> None:
    """Show a job with its attempts, events and logs.

    Payload, result, errors and logs are redacted.
    """
    admin = target.admin
    id = admin.whole_id(id)
    job = admin.get_job(id)
    history: dict[str, Any] = {
        "attempts": admin.attempts(id, page_size=100).items,
        "events": admin.events(id, page_size=100).items,
        "logs": admin.logs(id, page_size=100).items,
    }
    history["dependencies"] = admin.dependencies(id)
    history["steps"] = admin.steps(id, page_size=100).items
    document = {**msgspec.structs.asdict(job), **history}
    output.emit(document, as_json, lambda out: render_job(out, job, history, target.now()))


def render_job(out: Console, job: JobView, history: Mapping[str, Any], now: datetime) -> None:
    """Draw a job with its attempts, events and logs, and what it waits for."""
    out.print(output.fields(_job_fields(job, now)))
    _render_preview(out, "payload", job.payload_preview)
    if job.result_preview is not None:
        _render_preview(out, "result", job.result_preview)
    if "dependencies" in history:
        _render_dependencies(out, history["dependencies"])
    _render_steps(out, history.get("steps", ()), now)
    _render_attempts(out, history["attempts"], now)
    _render_events(out, history["events"])
    _render_logs(out, history["logs"])


def _job_fields(job: JobView, now: datetime) -> Iterator[tuple[str, str | None]]:
    yield "id", job.id
    yield "name", output.plain(job.name)
    yield "queue", output.plain(job.queue)
    paused = f" from {job.paused_from}" if job.paused_from else ""
    yield "status", output.word(job.status) + paused
    yield "damage", None if job.damage is None else output.plain(job.damage, 1_000)
    yield "can", ", ".join(action.replace("_", "-") for action in job.actions) or "nothing"
    yield "attempts", f"{job.attempt_count} of {job.max_attempts}"
    yield "priority", str(job.priority) if job.priority else None
    yield "timeout", None if job.timeout is None else output.duration(job.timeout)
    yield "created", output.stamp(job.created_at, now)
    yield "run at", output.stamp(job.run_at, now)
    yield "expires", output.stamp(job.expires_at, now) if job.attempt_count == 0 else None
    yield "finished", output.stamp(job.finished_at, now)
    yield "held by", None if job.locked_by is None else output.plain(job.locked_by)
    yield "until", output.stamp(job.locked_until, now)
    yield "progress", _progress(job)
    yield "occurrence", output.stamp(job.occurrence_at, now)
    for name in (
        "schedule_id",
        "idempotency_key",
        "business_key",
        "supersedes",
        "superseded_by",
        "correlation_id",
        "principal",
    ):
        value = getattr(job, name)
        yield name.replace("_", " "), None if value is None else output.plain(value)
    yield "payload version", str(job.payload_version) if job.payload_version else None
    yield "tags", ", ".join(map(output.plain, job.tags)) or None
    yield "metadata", output.plain(msgspec.json.encode(job.metadata).decode(), 1_000) if job.metadata else None
    if job.error_code is not None:
        yield "error", f"{output.plain(job.error_type or job.error_code)}: {output.plain(job.error_message, 1_000)}"
        yield "raised at", output.plain(job.error_frame) if job.error_frame else None


def _progress(job: JobView) -> str | None:
    percent = "" if job.progress is None else f"{job.progress:.0f} %"
    fields = " ".join(f"{name}={output.inline(value)}" for name, value in job.progress_fields.items())
    parts = [percent, output.plain(job.progress_message), f"[dim]{output.plain(fields, 1_000)}[/]" if fields else ""]
    return " ".join(filter(None, parts)) or None


def _heading(out: Console, text: str) -> None:
    out.print()
    out.print(f"[bold]{text}[/]")


def _render_preview(out: Console, name: str, preview: Preview) -> None:
    notes = [f"{preview.redacted} hidden"] if preview.redacted else []
    notes += ["cut"] if preview.truncated else []
    _heading(out, name + (f" [dim]({', '.join(notes)})[/]" if notes else ""))
    out.print(output.block(preview.text), soft_wrap=True)


def _render_dependencies(out: Console, found: DependenciesView) -> None:
    for heading, edges in (("waits for", found.parents), ("is waited for by", found.children)):
        if edges:
            _heading(out, heading)
            made = output.table("ID", "NAME", "STATUS", "NEEDS", "", whole=("ID", "STATUS"))
            for edge in edges:
                made.add_row(edge.job_id, output.plain(edge.name), output.word(edge.status), edge.needs, edge.state)
            out.print(made)


def _render_steps(out: Console, steps: tuple[StepView, ...], now: datetime) -> None:
    if not steps:
        return
    _heading(out, "steps")
    made = output.table("KIND", "NAME", "STATE", "#", "TOOK", "RESULT", whole=("KIND", "STATE"))
    for one in steps:
        result = output.plain(None if one.result_preview is None else one.result_preview.text)
        if one.state == "waiting" and one.wake_at is not None:
            result = f"until {output.stamp(one.wake_at, now)}"
        made.add_row(
            one.kind,
            output.plain(one.name),
            one.state.replace("_", " "),
            str(one.attempt_number),
            output.duration(one.duration),
            result,
        )
    out.print(made)


def _render_attempts(out: Console, attempts: tuple[AttemptView, ...], now: datetime) -> None:
    if not attempts:
        return
    _heading(out, "attempts")
    made = output.table("#", "STATUS", "STARTED", "TOOK", "WORKER", whole=("#", "STATUS", "WORKER"))
    for one in attempts:
        made.add_row(
            str(one.attempt_number),
            output.word(one.status),
            output.ago(one.started_at, now),
            output.duration(one.duration),
            output.plain(one.worker_id),
        )
    out.print(made)
    failed = next((one for one in reversed(attempts) if one.traceback), None)
    if failed is not None:
        _heading(out, f"traceback of attempt {failed.attempt_number}")
        out.print(output.block(failed.traceback), soft_wrap=True)


def _render_events(out: Console, events: tuple[EventView, ...]) -> None:
    _heading(out, "events")
    made = output.table("WHEN", "EVENT", "TO", "BY", "MESSAGE", whole=("WHEN", "EVENT", "TO"))
    for event in events:
        # An attempt names its worker above.
        by = event.actor or (f"attempt {event.attempt_number}" if event.attempt_number else None)
        made.add_row(
            f"{event.created_at:%Y-%m-%d %H:%M:%S}",
            output.plain(event.event_type),
            output.word(event.to_status),
            output.plain(by),
            output.plain(event.message),
        )
    out.print(made)


def _render_logs(out: Console, logs: tuple[LogView, ...]) -> None:
    if not logs:
        return
    _heading(out, "logs")
    made = output.table("WHEN", "#", "LEVEL", "MESSAGE", whole=("WHEN",))
    for line in logs:
        extra = " ".join(f"{key}={output.inline(value)}" for key, value in line.fields.items())
        made.add_row(
            f"{line.created_at:%H:%M:%S}",
            str(line.attempt_number),
            output.plain(line.level),
            f"{output.plain(line.message)} [dim]{output.plain(extra)}[/]" if extra else output.plain(line.message),
        )
    out.print(made)


@click.command()
@click.argument("id")
@as_json
@pass_target
def explain(target: Target, id: str, as_json: bool) -> None:
    """Say why a job is not running, or how it ended."""
    explanation = target.admin.explain(target.admin.whole_id(id))
    output.emit(explanation, as_json, lambda out: _render_explanation(out, explanation, target.now()))


def _render_explanation(out: Console, explanation: Explanation, now: datetime) -> None:
    out.print(f"{explanation.job_id}  {output.word(explanation.status)}", soft_wrap=True)
    out.print(f"[bold]{output.plain(explanation.verdict, 1_000)}[/]")
    for reason in explanation.reasons:
        if reason.text != explanation.verdict:
            until = f" [dim]({output.ago(reason.until, now)})[/]" if reason.until is not None else ""
            out.print(f"- {output.plain(reason.text, 1_000)}{until}")
