"""``web``: the admin pages, served by gunicorn."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec

import click

from sloppyjobs.cli.target import Target, pass_target
from sloppyjobs.errors import JobsError


@click.command()
@click.option("--bind", metavar="HOST:PORT", default="127.0.0.1:8000", show_default=True, help="Where to listen.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Server processes.")
@pass_target
def web(target: Target, bind: str, workers: int) -> None:
    """Serve the admin pages.

    They are meant to be mounted into an application; this serves them alone.
    """
    factory = web_factory()
    target.jobs.storage.ensure_schema()
    environment = {**os.environ, **server_environment(target)}
    _check(environment)
    command = server_command(factory, bind, workers)
    target.close()
    os.execve(command[0], command, environment)  # noqa: S606


def _check(environment: dict[str, str]) -> None:
    """Refuse here what the pages would refuse in each server process."""
    try:
        import_module("webui").create_app(environment)
    except RuntimeError as error:
        raise JobsError(str(error)) from error


def web_factory() -> str:
    """Where gunicorn finds the pages; refuses where this installation has none."""
    # Found by name, because nothing in the library may depend on the pages.
    try:
        if find_spec("webui") is not None and hasattr(import_module("webui"), "create_app"):
            return "webui:create_app()"
    except ImportError as error:
        raise JobsError(f"the admin pages cannot be loaded: {error}") from error
    raise JobsError("this installation has no admin pages: the package webui is missing, or cannot serve by itself")


def server_command(factory: str, bind: str, workers: int) -> list[str]:
    """The server's command line."""
    options = ["--bind", bind, "--workers", str(workers), "--threads", "8", "--access-logfile", "-"]
    return [sys.executable, "-m", "gunicorn", *options, factory]


def server_environment(target: Target) -> dict[str, str]:
    """What tells the server whose jobs it shows."""
    if target.app is not None:
        return {"SLOPPYJOBS_APP": target.app}
    return {"SLOPPYJOBS_DATABASE_URL": target.connected().storage.location.url}
