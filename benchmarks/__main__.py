"""The command line: ``python -m benchmarks <name>``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from benchmarks import (
    batch_ends,
    batches,
    before,
    bulk,
    databases,
    drain,
    drain_failing,
    drain_kinds,
    due_latency,
    enqueue,
    growth,
    idle,
    latency,
    limits,
    mariadb,
    profiling,
    scale,
    sqlite,
    sweep,
    workflows,
)
from benchmarks.report import Report, show

F = Callable[..., Any]

with_database = click.option(
    "--database",
    metavar="URL",
    help=f"A PostgreSQL server on which databases may be created. Default: ${databases.ENVIRONMENT}, else one from a "
    "wheel.",
)
with_mariadb = click.option(
    "--mariadb",
    "mariadb_url",
    metavar="URL",
    help=f"A MariaDB server on which databases may be created. Default: ${mariadb.ENVIRONMENT}, else one of its own.",
)
with_peers = click.option(
    "--peers", multiple=True, metavar="NAME", help="Only these peers (pgqueuer, huey); may be repeated."
)
with_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")


def with_jobs(default: int, what: str = "Jobs in each round.") -> Callable[[F], F]:
    """The option that says how many jobs."""
    return click.option("--jobs", default=default, show_default=True, help=what)


def with_rounds(default: int = 3) -> Callable[[F], F]:
    """The option that says how many rounds."""
    return click.option("--rounds", default=default, show_default=True, help="Alternating rounds.")


@click.group()
def main() -> None:
    """Measure sloppyjobs and its peers in the same run, each in a process and a database of its own."""


@main.command("drain")
@with_database
@with_jobs(20_000)
@with_rounds()
@with_peers
@with_json
def drain_command(database: str | None, jobs: int, rounds: int, peers: tuple[str, ...], as_json: bool) -> None:
    """One worker process empties a PostgreSQL queue."""
    with databases.server(database) as server:
        show(drain.run(server, jobs, rounds, peers), as_json=as_json)


@main.command("failing")
@with_database
@with_jobs(60_000)
@with_rounds()
@with_peers
@with_json
def failing_command(database: str | None, jobs: int, rounds: int, peers: tuple[str, ...], as_json: bool) -> None:
    """One worker process empties a queue of jobs of which some fail, on PostgreSQL and SQLite."""
    with databases.server(database) as server:
        show(drain_failing.run(server, jobs, rounds, peers), as_json=as_json)


@main.command("kinds")
@with_database
@with_jobs(20_000)
@with_rounds()
@with_json
def kinds_command(database: str | None, jobs: int, rounds: int, as_json: bool) -> None:
    """One worker process empties a queue of many lanes, of large payloads, of jobs with results."""
    with databases.server(database) as server:
        show(drain_kinds.run(server, jobs, rounds), as_json=as_json)


@main.command("limits")
@with_database
@with_jobs(20_000)
@click.option("--parked", default=limits.PARKED, show_default=True, help="Jobs that wait for one permit.")
@with_rounds()
@with_json
def limits_command(database: str | None, jobs: int, parked: int, rounds: int, as_json: bool) -> None:
    """A drain under a limit that does not bind, and claims beside jobs that wait for permits."""
    with databases.server(database) as server:
        show(limits.run(server, jobs, rounds, parked), as_json=as_json)


@main.command("batches")
@with_database
@with_jobs(20_000)
@with_rounds()
@with_json
def batches_command(database: str | None, jobs: int, rounds: int, as_json: bool) -> None:
    """The drain of a batch beside that of plain jobs, by one worker and by sixteen; and bulk calls."""
    with databases.server(database) as server:
        show(batches.run(server, jobs, rounds), as_json=as_json)


@main.command("batch-ends")
@with_database
@with_mariadb
@click.option("--processes", default=8, show_default=True, help="Processes, and members of each batch.")
@click.option("--rounds", default=1000, show_default=True, help="Batches.")
@with_json
def batch_ends_command(
    database: str | None, mariadb_url: str | None, processes: int, rounds: int, as_json: bool
) -> None:
    """Processes that settle the last members of one batch at once: one of each callback, or exit code 1."""
    with databases.server(database) as postgres, mariadb.server(mariadb_url) as server:
        reports, right = batch_ends.run(postgres, server, processes, rounds)
    show(reports, as_json=as_json)
    if not right:
        raise SystemExit(1)


@main.command("workflows")
@with_database
@with_jobs(10_000)
@with_rounds()
@with_json
def workflows_command(database: str | None, jobs: int, rounds: int, as_json: bool) -> None:
    """One worker process empties a queue of jobs of workflows; and a job for which thousands wait is settled."""
    with databases.server(database) as server:
        show(workflows.run(server, jobs, rounds), as_json=as_json)


@main.command("enqueue")
@with_database
@with_jobs(2000, "Jobs enqueued one by one; twenty-five times as many in bulk.")
@with_rounds()
@with_peers
@with_json
def enqueue_command(database: str | None, jobs: int, rounds: int, peers: tuple[str, ...], as_json: bool) -> None:
    """Single and bulk enqueue on PostgreSQL."""
    with databases.server(database) as server:
        show(enqueue.run(server, jobs, jobs * 25, rounds, peers), as_json=as_json)


@main.command("bulk")
@with_database
@with_jobs(20_000)
@with_rounds()
@with_peers
@with_json
def bulk_command(database: str | None, jobs: int, rounds: int, peers: tuple[str, ...], as_json: bool) -> None:
    """Every kind of bulk call, on PostgreSQL and SQLite, beside the plain one."""
    with databases.server(database) as server:
        show(bulk.run(server, jobs, rounds, peers), as_json=as_json)


@main.command("sqlite")
@with_jobs(10_000)
@with_rounds()
@with_peers
@with_json
def sqlite_command(jobs: int, rounds: int, peers: tuple[str, ...], as_json: bool) -> None:
    """Drain and enqueue on SQLite, with an fsync at every commit."""
    show(sqlite.run(jobs, 1000, jobs, rounds, peers), as_json=as_json)


@main.command("mariadb")
@with_database
@with_mariadb
@with_jobs(20_000)
@with_rounds()
@with_json
def mariadb_command(database: str | None, mariadb_url: str | None, jobs: int, rounds: int, as_json: bool) -> None:
    """Drain and enqueue on MariaDB, beside PostgreSQL."""
    with databases.server(database) as postgres, mariadb.server(mariadb_url) as server:
        show(mariadb.run(postgres, server, jobs, rounds), as_json=as_json)


@main.command("latency")
@with_database
@with_jobs(300)
@with_rounds()
@with_peers
@with_json
def latency_command(database: str | None, jobs: int, rounds: int, peers: tuple[str, ...], as_json: bool) -> None:
    """From enqueue to handler on an idle PostgreSQL queue."""
    with databases.server(database) as server:
        show(latency.run(server, jobs, rounds, peers), as_json=as_json)


@main.command("due")
@with_database
@with_jobs(300)
@with_rounds()
@with_json
def due_command(database: str | None, jobs: int, rounds: int, as_json: bool) -> None:
    """From the moment when a job is due again to its handler, on PostgreSQL and SQLite."""
    with databases.server(database) as server:
        show(due_latency.run(server, jobs, rounds), as_json=as_json)


@main.command("growth")
@with_database
@click.option("--scale", default=1.0, show_default=True, help="Share of the full backlogs on PostgreSQL.")
@click.option("--sqlite-scale", default=0.2, show_default=True, help="Share of the full backlogs on SQLite.")
@with_json
def growth_command(database: str | None, scale: float, sqlite_scale: float, as_json: bool) -> None:
    """Claim time beside millions of other jobs."""
    with databases.server(database) as server:
        show(growth.run(server, scale, sqlite_scale), as_json=as_json)


@main.command("idle")
@with_database
@click.option("--seconds", default=20.0, show_default=True, help="How long to watch.")
@with_peers
@with_json
def idle_command(database: str | None, seconds: float, peers: tuple[str, ...], as_json: bool) -> None:
    """CPU and memory of a worker without jobs."""
    with databases.server(database) as server:
        show(idle.run(server, seconds, peers), as_json=as_json)


@main.command("scale")
@with_database
@with_jobs(20_000)
@with_rounds()
@click.option("--processes", type=int, multiple=True, default=(1, 2, 4), show_default=True, help="May be repeated.")
@click.option("--milliseconds", default=0.0, show_default=True, help="How long each handler waits.")
@with_json
def scale_command(
    database: str | None, jobs: int, rounds: int, processes: tuple[int, ...], milliseconds: float, as_json: bool
) -> None:
    """Several worker processes on one PostgreSQL; and what a job leaves behind."""
    with databases.server(database) as server:
        show(scale.run(server, jobs, rounds, processes, milliseconds), as_json=as_json)


@main.command("profile")
@with_database
@click.option("--target", type=click.Choice(["drain"]), default="drain", show_default=True)
@click.option("--handlers", type=click.Choice(["coroutines", "threads"]), default="threads", show_default=True)
@with_jobs(20_000)
@with_json
def profile_command(database: str | None, target: str, handlers: str, jobs: int, as_json: bool) -> None:
    """Where a drain's time goes, in Python by thread and in the database by statement."""
    with databases.server(database) as server:
        show(profiling.run(server, jobs, handlers), as_json=as_json)


@main.command("sweep")
@with_database
@with_jobs(20_000)
@with_rounds(2)
@with_json
def sweep_command(database: str | None, jobs: int, rounds: int, as_json: bool) -> None:
    """Search for the peers' fastest settings."""
    with databases.server(database) as server:
        show(sweep.run(server, jobs, rounds), as_json=as_json)


@main.command("before")
@click.argument("checkout", type=click.Path(exists=True, file_okay=False, path_type=Path))
@with_database
@with_jobs(20_000)
@with_rounds()
@click.option("--case", "only", multiple=True, metavar="WORD", help="Only cases with this word; may be repeated.")
@with_json
def before_command(
    checkout: Path, database: str | None, jobs: int, rounds: int, only: tuple[str, ...], as_json: bool
) -> None:
    """This checkout beside another, such as a worktree of the commit before."""
    with databases.server(database) as server:
        show(before.run(server, checkout.resolve(), jobs, rounds, only), as_json=as_json)


@main.command("all")
@with_database
@with_rounds(1)
@with_peers
@with_json
def all_command(database: str | None, rounds: int, peers: tuple[str, ...], as_json: bool) -> None:
    """A quick set of everything; small numbers, for a first look."""
    with databases.server(database) as server:
        reports: list[Report] = [
            *drain.run(server, 5000, rounds, peers),
            *drain_kinds.run(server, 5000, rounds),
            *limits.run(server, 5000, rounds, 2000),
            *enqueue.run(server, 500, 20_000, rounds, peers),
            *bulk.run(server, 10_000, rounds, peers),
            *sqlite.run(3000, 300, 3000, rounds, peers),
            *latency.run(server, 100, rounds, peers),
            *growth.run(server, 0.02, 0.02),
            *idle.run(server, 5, peers),
        ]
    show(reports, as_json=as_json)


if __name__ == "__main__":
    main()
