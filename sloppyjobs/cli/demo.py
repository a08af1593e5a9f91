"""``demo``: a sample application with jobs of every state; with ``--serve``, a worker and the admin pages too."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from sloppyjobs import demo as shop
from sloppyjobs.cli import output
from sloppyjobs.cli.overview import render_status
from sloppyjobs.cli.params import Span
from sloppyjobs.cli.target import Target, pass_target
from sloppyjobs.cli.web import server_command, web_factory
from sloppyjobs.demo import history
from sloppyjobs.errors import JobsError
from sloppyjobs.jobs import Jobs

APP = "sloppyjobs.demo:jobs"
USER = "demo"
STATUS_SECONDS = 5.0


@click.command()
@click.option("--count", type=click.IntRange(0, 100_000), default=200, show_default=True, help="Jobs to begin with.")
@click.option(
    "--rate", type=click.FloatRange(0, 10_000), help="Jobs a second from then on.  [default: 0; 1 with --serve]"
)
@click.option("--duration", type=Span(), help="How long to go on.  [default: until Ctrl-C]")
@click.option("--serve", is_flag=True, help="Start a worker and, where they are installed, the admin pages.")
@click.option("--port", type=click.IntRange(1, 65_535), default=8000, show_default=True, help="The first port to try.")
@pass_target
def demo(target: Target, count: int, rate: float | None, duration: float | None, serve: bool, port: int) -> None:
    """Fill a database with sample jobs, and keep them coming.

    The jobs are those of a small shop: succeeded, retrying, dead of several causes, scheduled, paused, cancelled,
    queued, running; and four schedules. Their secrets are made up.
    """
    if target.app is not None:
        raise click.UsageError("demo brings an application of its own: name a database with --database")
    _make_folder(target)
    jobs = shop.create_jobs(target.connected().storage)
    jobs.init()
    if count:
        _fill(jobs, count)
    rate = rate if rate is not None else float(serve)
    if not rate and not serve:
        output.hint(f"see `sloppyjobs --database {target.where()} status`, or run `sloppyjobs --app {APP} worker`")
        return
    with _interruptible() as stop, ExitStack() as running:
        if serve:
            running.enter_context(_served(target, jobs, port, stop))
        if duration is not None:
            alarm = threading.Timer(duration, stop.set)
            running.callback(alarm.cancel)
            alarm.start()
        written = shop.keep_enqueueing(jobs, rate, stop) if rate else stop.wait() and 0
    click.echo(f"enqueued {written:,} more jobs")


def _make_folder(target: Target) -> None:
    """The folder of a demo's SQLite file, which need not be there yet; the one above it must."""
    file = target.connected().storage.location.file
    if file is not None and file.parent.parent.is_dir():
        file.parent.mkdir(exist_ok=True)


def _fill(jobs: Jobs, count: int) -> None:
    out = output.console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=out, disable=not out.is_terminal, transient=True) as bar:
        task = bar.add_task("sample jobs", total=count)
        history.add_history(jobs)
        shop.fill(jobs, count, advance=lambda number: bar.advance(task, number))
        history.add_trouble(jobs)
    click.echo(f"filled with about {count:,} jobs of every state, and {len(jobs.admin.list_recurring())} schedules")


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set."""
    stop = threading.Event()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# Serving


@contextmanager
def _served(target: Target, jobs: Jobs, port: int, stop: threading.Event) -> Iterator[None]:
    """A worker and the admin pages; without pages, the status again and again."""
    pages = _start_pages(target, port)
    worker = jobs.create_worker(concurrency=10)
    worker.start()
    click.echo(f"a worker runs ({worker.id}); Ctrl-C stops everything")
    telling = None
    if pages is None:
        telling = threading.Thread(target=_tell_status, args=(jobs, stop), daemon=True)
        telling.start()
        output.hint(f"in another terminal: sloppyjobs --database {target.where()} list")
    try:
        yield
    finally:
        stop.set()
        click.echo("stopping …")
        if telling is not None:
            telling.join(5)
        worker.stop(10)
        if pages is not None:
            _end(pages)


def _start_pages(target: Target, first_port: int) -> subprocess.Popen[bytes] | None:
    try:
        factory = web_factory()
    except JobsError as error:
        output.hint(f"without admin pages: {error}")
        return None
    port, password = _free_port(first_port), secrets.token_urlsafe(9)
    environment = {
        **os.environ,
        "SLOPPYJOBS_DATABASE_URL": target.connected().storage.location.url,
        "SLOPPYJOBS_APP": APP,
        "SLOPPYJOBS_WEBUI_USERNAME": USER,
        "SLOPPYJOBS_WEBUI_PASSWORD": password,
    }
    command = [
        *server_command(factory, f"127.0.0.1:{port}", 1),
        "--log-level",
        "warning",
        "--access-logfile",
        "/dev/null",
    ]
    # In a session of its own, so that Ctrl-C reaches it through us, after the worker has stopped.
    pages = subprocess.Popen(command, env=environment, start_new_session=True)  # noqa: S603
    if not _answers(pages, port):
        _end(pages)
        output.hint("the admin pages did not start; going on without them")
        return None
    click.echo(f"admin pages: http://127.0.0.1:{port}/  user {USER}  password {password}")
    return pages


def _free_port(first: int) -> int:
    for port in range(first, min(first + 100, 65_536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise JobsError(f"no port from {first} on is free; name another with --port")


def _answers(pages: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + 20
    while pages.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.1)
    return False


def _end(pages: subprocess.Popen[bytes]) -> None:
    pages.terminate()
    try:
        pages.wait(10)
    except subprocess.TimeoutExpired:
        pages.kill()
        pages.wait()


def _tell_status(jobs: Jobs, stop: threading.Event) -> None:
    while not stop.wait(STATUS_SECONDS):
        out = output.console()
        out.rule() if out.is_terminal else out.print()
        render_status(out, jobs.admin.overview(), jobs.admin.stats(60).total)
