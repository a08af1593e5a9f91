"""``flask jobs …``: the commands of ``sloppyjobs``, on the jobs of the application."""

from __future__ import annotations

import re

import click
from flask import Flask
from flask.cli import ScriptInfo

from sloppyjobs.cli.root import COMMANDS, Root
from sloppyjobs.cli.target import Target
from sloppyjobs.errors import JobsError

LEFT_OUT = ("completion", "demo", "web")
"""They are about ``sloppyjobs`` itself, or bring an application of their own."""


_COMMAND = re.compile(r"`sloppyjobs(?: --(?:database|app) [^\s`]+)*(?=[\s`])")
_TWICE = re.compile(r"(`flask jobs [^`]+`), \1(?= or )")
"""Both commands of a message, once they are the same."""


class AppTarget(Target):
    """The jobs of an application."""

    def remedy(self) -> str:
        """The command that makes the database."""
        return "create it with `flask jobs init`"

    def as_typed(self, text: str) -> str:
        """``flask jobs …`` instead of ``sloppyjobs …``; the application and its database are known."""
        return _TWICE.sub(r"\1", _COMMAND.sub("`flask jobs", text))


class FlaskCommands(Root):
    """Finds the application, and then the command."""

    def __init__(self) -> None:
        super().__init__("jobs", callback=_enter, help="Durable background jobs: see, steer and run them.")

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Those that make sense inside an application."""
        return [name for name in super().list_commands(ctx) if name not in LEFT_OUT]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        return None if cmd_name in LEFT_OUT else super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by section, without importing any."""
        shown = {name: COMMANDS[name] for name in self.list_commands(ctx)}
        for section in dict.fromkeys(entry.section for entry in shown.values()):
            with formatter.section(section):
                formatter.write_dl([(name, entry.help) for name, entry in shown.items() if entry.section == section])


@click.pass_context
def _enter(ctx: click.Context) -> None:
    info = ctx.ensure_object(ScriptInfo)
    app: Flask = info.load_app()
    jobs = app.extensions.get("sloppyjobs")
    if jobs is None:
        raise JobsError(f"the application {app.import_name!r} has no jobs: call jobs.init_app(app, db)")
    jobs.location = info.app_import_path
    ctx.obj = AppTarget(app=app.import_name, given=jobs)
    ctx.call_on_close(ctx.obj.close)
