"""``worker`` and ``tick``: what makes jobs run."""

from __future__ import annotations

import gc
import logging
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from sloppyjobs.cli import output
from sloppyjobs.cli.params import Names, Span, as_json
from sloppyjobs.cli.reloading import is_child, watch_and_restart
from sloppyjobs.cli.target import Target, pass_target
from sloppyjobs.logs import JobFilter, JsonFormatter, TextFormatter

_SUMMED_UP = ("succeeded", "retrying", "dead")
"""Outcomes that a summary always names; others only where there are any."""
_LEVELS = ("debug", "info", "warning", "error")


@click.command()
@click.option("--processes", type=click.IntRange(1, 256), default=1, show_default=True, help="Worker processes.")
@click.option("--queues", type=Names(), default="*", show_default=True, metavar="A,B", help="Which queues; * is all.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    help="Jobs at once, in each process.",
)
@click.option("--lease", type=Span(), default="30", show_default=True, help="How long a silent worker keeps its jobs.")
@click.option("--heartbeat", type=Span(), help="How often leases are renewed.  [default: 5, or a third of the lease]")
@click.option("--poll-interval", type=Span(), default="1", show_default=True, help="How often to look without news.")
@click.option(
    "--shutdown-timeout", type=Span(), default="30", show_default=True, help="How long running jobs may finish."
)
@click.option("--prefetch", type=click.IntRange(0, 10_000), help="Jobs held ready.  [default: as their run time says]")
@click.option("--until-idle", is_flag=True, help="Run what is due now, one job after the other, and stop.")
@click.option(
    "--reload", is_flag=True, help="Start anew when a Python file below this folder changes; for development."
)
@click.option(
    "--exit-if-unavailable", is_flag=True, help="Exit if the database cannot be used at the start, and do not wait."
)
@click.option("--no-recurring", is_flag=True, help="Leave the schedules to others.")
@click.option("--no-maintenance", is_flag=True, help="Leave cleanup and purge to others.")
@click.option("--log-level", type=click.Choice(_LEVELS), default="info", show_default=True, help="How much to say.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="In which form."
)
@click.option(
    "--capture-logs", type=click.Choice(_LEVELS), help="Keep what handlers log from this level on with the job."
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65_535),
    help="Serve /metrics and /healthz there; with --processes, on as many ports from there on.",
)
@click.option(
    "--app-version",
    metavar="TEXT",
    help="The application's version; a new one is marked as a deploy.  [default: as the application says, else "
    "SLOPPYJOBS_APP_VERSION]",
)
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="The address for --metrics-port.")
@pass_target
def worker(
    target: Target,
    /,
    processes: int,
    until_idle: bool,
    reload: bool,
    no_recurring: bool,
    no_maintenance: bool,
    log_level: str,
    log_format: str,
    metrics_port: int | None,
    lease: float,
    heartbeat: float | None,
    shutdown_timeout: float,
    **settings: Any,
) -> None:
    """Run jobs until SIGTERM or Ctrl-C.

    Then it drains: running jobs may finish, and what does not finish in time is given back without costing an attempt.
    A database that cannot be used yet is waited for.
    """
    if target.app is None and target.given is None:
        raise click.UsageError(
            "a worker needs the application, because it has the handlers: sloppyjobs --app module:jobs worker"
        )
    if until_idle and processes > 1:
        raise click.UsageError("--until-idle runs one job after the other, so that one process is enough")
    if reload and until_idle:
        raise click.UsageError("--reload works on until it is stopped, --until-idle does not: choose one")
    if reload and not is_child():
        click.get_current_context().exit(watch_and_restart(Path.cwd()))
    _log_to_stderr(log_level, log_format)
    settings |= {
        "lease": lease,
        "heartbeat": min(5.0, lease / 3) if heartbeat is None else heartbeat,
        "shutdown_timeout": shutdown_timeout,
        "recurring": not no_recurring,
        "maintenance": not no_maintenance,
        # Each process takes the first that is free.
        "metrics_port": None if metrics_port is None else range(metrics_port, metrics_port + processes),
    }
    # Checked here, so that a wrong setting is refused once and not by every process.
    target.jobs.create_worker(**settings)
    if not target.jobs.definitions.handled():
        raise click.UsageError(f"{target.app} defines no job with a handler, so that a worker would do nothing")
    _check_schema(target, wait=not (until_idle or settings["exit_if_unavailable"]))
    if until_idle:
        _work_off(target, settings)
        return
    if processes == 1:
        _work(target, settings)
        return
    from sloppyjobs.worker.supervisor import supervise  # noqa: PLC0415

    # The children open connections of their own.
    target.close()
    code = supervise(partial(_work, target, settings), processes, shutdown_timeout)
    click.get_current_context().exit(code)


def _check_schema(target: Target, *, wait: bool) -> None:
    """Refuse missing tables here, once and not by every process; an outage is left to those, which wait."""
    from sloppyjobs.storage.ports import may_recover  # noqa: PLC0415

    try:
        target.jobs.storage.ensure_schema()
    except Exception as error:
        if not wait or not may_recover(error):
            raise


def _log_to_stderr(level: str, form: str) -> None:
    """Log to stderr, unless the application has made other arrangements."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(JobFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler])


def _work_off(target: Target, settings: dict[str, Any]) -> None:
    """What handlers enqueue is worked off too, unless it is due later."""
    ended = target.jobs.create_worker(**settings).run_until_idle()
    shown = [word for word in ended if word not in _SUMMED_UP]
    parts = ", ".join(f"{ended[word]} {word}" for word in (*_SUMMED_UP, *sorted(shown)))
    click.echo(f"attempts made: {ended.total()} ({parts}); nothing else is due")


def _work(target: Target, settings: dict[str, Any]) -> bool:
    """Whether an operator stopped the worker."""
    # The process is the worker's own: what has been loaded stays until its end, and no garbage collection need look
    # through it while jobs run. The first one would take about as long as a thousand short jobs.
    gc.freeze()
    return target.jobs.create_worker(**settings).run()


@click.command()
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="Schedules at most.")
@as_json
@pass_target
def tick(target: Target, limit: int, as_json: bool) -> None:
    """Enqueue what is due by the schedules, once.

    Workers do this by themselves; this is for hosts that run nothing but cron.
    """
    enqueued = target.jobs.tick_recurring(limit=limit)
    shown = ("id", "name", "queue", "status", "run_at", "occurrence_at", "schedule_id")

    def render(out: Console) -> None:
        for job in enqueued:
            out.print(f"{job.id} {output.plain(job.name)} is {output.word(job.status)}", soft_wrap=True)
        if not enqueued:
            out.print("[dim]nothing was due[/]")

    items = [{name: getattr(job, name) for name in shown} for job in enqueued]
    output.emit({"items": items}, as_json, render)
