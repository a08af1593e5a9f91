"""The root of the command line: what is common to all commands, and where each of them lives.

A command's module is imported when the command runs, so that ``sloppyjobs --help`` is quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from sloppyjobs import __version__
from sloppyjobs.cli.target import Target, as_typed
from sloppyjobs.domain.log_lines import one_line
from sloppyjobs.errors import JobsError, StorageUnavailable


class Entry(NamedTuple):
    """Where a command lives, and what it does in a few words."""

    section: str
    module: str
    attribute: str
    help: str


_SETUP, _SEE, _STEER, _RUN, _KEEP = "Set up", "See", "Steer", "Run", "Keep in order"

COMMANDS: Mapping[str, Entry] = {
    "init": Entry(_SETUP, "schema", "init", "Create the tables, or bring them up to date."),
    "sql": Entry(_SETUP, "schema", "sql", "Print the statements that create the tables."),
    "doctor": Entry(_SETUP, "doctor", "doctor", "Check the database, its settings and its workers."),
    "generate-key": Entry(_SETUP, "encryption", "generate_key", "Print a new key for encryption at rest."),
    "demo": Entry(_SETUP, "demo", "demo", "Fill a database with sample jobs, and keep them coming."),
    "completion": Entry(_SETUP, "completion", "completion", "Print the script for completion in a shell."),
    "status": Entry(_SEE, "overview", "status", "The state of everything at a glance."),
    "list": Entry(_SEE, "listing", "list_", "List jobs, newest first."),
    "show": Entry(_SEE, "listing", "show", "Show a job with its attempts, events and logs."),
    "explain": Entry(_SEE, "listing", "explain", "Say why a job is not running, or how it ended."),
    "dead": Entry(_SEE, "overview", "dead", "Group dead jobs by their cause."),
    "job-types": Entry(_SEE, "job_types", "job_types", "List job types, or show how one of them does."),
    "workflows": Entry(_SEE, "workflows", "workflows", "List workflows, show, cancel and retry them."),
    "workers": Entry(_SEE, "workers", "workers", "List worker processes, show, quiet, resume and stop them."),
    "deploys": Entry(_SEE, "deploys", "deploys", "List deploys, latest first."),
    "locks": Entry(_SEE, "overview", "locks", "List named locks."),
    "audit": Entry(_SEE, "overview", "audit", "List who commanded what."),
    "alerts": Entry(_SEE, "alerts", "alerts", "List the rules for alerts, what was sent, and send a test."),
    "archive": Entry(_SEE, "archive", "archive", "Search archived jobs, show them, restore them as new ones."),
    "retry": Entry(_STEER, "commands", "retry", "Queue dead jobs again, with fresh attempts."),
    "cancel": Entry(_STEER, "commands", "cancel", "Cancel jobs that have not finished."),
    "delete": Entry(_STEER, "commands", "delete", "Delete finished or queued jobs; a purge removes them later."),
    "pause": Entry(_STEER, "commands", "pause", "Hold jobs back until they are resumed."),
    "resume": Entry(_STEER, "commands", "resume", "Put paused jobs back to where they were."),
    "run-now": Entry(_STEER, "commands", "run_now", "Queue scheduled, retrying or paused jobs at once."),
    "signal": Entry(_STEER, "signalling", "signal", "Send a job the signal that its handler waits for."),
    "patch": Entry(_STEER, "patching", "patch", "Change keys of a job's payload, without showing it."),
    "queues": Entry(_STEER, "queues", "queues", "List queues, pause and resume them."),
    "limits": Entry(_STEER, "limits", "limits", "List limits, see who holds permits, and change them."),
    "recurring": Entry(_STEER, "recurring", "recurring", "List schedules, and steer them."),
    "batches": Entry(_STEER, "batches", "batches", "List batches, show, seal, cancel and retry them."),
    "mark-deploy": Entry(_STEER, "deploys", "mark_deploy", "Mark that a version of the application is deployed now."),
    "enqueue": Entry(_RUN, "enqueue", "enqueue", "Enqueue a job of the application."),
    "worker": Entry(_RUN, "worker", "worker", "Run jobs until SIGTERM or Ctrl-C."),
    "tick": Entry(_RUN, "worker", "tick", "Enqueue what is due by the schedules, once."),
    "web": Entry(_RUN, "web", "web", "Serve the admin pages."),
    "cleanup": Entry(_KEEP, "retention", "cleanup", "Delete finished jobs that are old enough."),
    "purge": Entry(_KEEP, "retention", "purge", "Remove or archive deleted jobs for good."),
    "rekey": Entry(_KEEP, "encryption", "rekey", "Encrypt with the first key what is not encrypted with it."),
}


class Refused(click.ClickException):
    """The operation was refused: one clear line, exit code 1."""

    exit_code = 1


class Root(click.Group):
    """Finds commands by name, and turns errors of the library into one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Every command, in the order in which they are shown."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of that name, imported now."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(f"sloppyjobs.cli.{entry.module}"), entry.attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The commands by section, without importing any."""
        for section in dict.fromkeys(entry.section for entry in COMMANDS.values()):
            with formatter.section(section):
                formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items() if entry.section == section])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error of the library or of the database becomes one line on stderr."""
        try:
            return super().invoke(ctx)
        except StorageUnavailable as error:
            raise Refused(_unavailable(ctx, error)) from error
        except JobsError as error:
            raise Refused(as_typed(refusal(error))) from error
        except ModuleNotFoundError as error:
            raise _missing_module(error) from error
        except Exception as error:
            from sloppyjobs.storage.ports import DatabaseError  # noqa: PLC0415 - most commands end without an error

            if not isinstance(error, DatabaseError):
                raise
            raise Refused(_database_error(ctx, error)) from error


def refusal(error: JobsError) -> str:
    """What the error says, and its code, by which it can be looked up."""
    text = one_line(str(error))
    return text if error.code == JobsError.code else f"{text} [{error.code}]"


_DRIVERS = {
    "psycopg": "pip install 'sloppyjobs[postgres]'",
    "psycopg2": "pip install psycopg2-binary, or pip install 'sloppyjobs[postgres]' and use a postgresql:// URL",
    "pymysql": "pip install 'sloppyjobs[mysql]'",
    "mssql_python": "pip install 'sloppyjobs[sqlserver]'",
}


def _missing_module(error: ModuleNotFoundError) -> Exception:
    remedy = _DRIVERS.get(error.name or "")
    return error if remedy is None else Refused(f"the database driver {error.name} is not installed; {remedy}")


def _unavailable(ctx: click.Context, error: StorageUnavailable) -> str:
    doubt = "; it may have been done all the same, so look before you repeat it" if error.maybe_done else ""
    rights = "; `sloppyjobs doctor` names the rights that are missing" if error.denied else ""
    return f"{_database_error(ctx, error)}{doubt}{rights} [{error.code}]"


def _database_error(ctx: click.Context, error: Exception) -> str:
    where = ctx.obj.where() if isinstance(ctx.obj, Target) else "the database"
    cause = getattr(error, "orig", None) or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    said = lines[0] if lines else type(cause).__name__
    said = ctx.obj.harmless(said) if isinstance(ctx.obj, Target) else said
    if type(error).__name__ in ("OperationalError", "InterfaceError", "StorageUnavailable"):
        return f"cannot use {where}: {said}"
    return f"{where} refused: {type(cause).__name__}: {said}"


@click.group(cls=Root, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--database",
    metavar="URL",
    envvar="SLOPPYJOBS_DATABASE_URL",
    show_envvar=True,
    help="The database of the jobs, as a SQLAlchemy URL.  [default: sqlite:///sloppyjobs.db]",
)
@click.option(
    "--app",
    metavar="MODULE:ATTRIBUTE",
    envvar="SLOPPYJOBS_APP",
    show_envvar=True,
    help="The application: a Jobs, a Flask application that has one, or a function that makes either.",
)
@click.version_option(__version__, prog_name="sloppyjobs")
@click.pass_context
def main(ctx: click.Context, database: str | None, app: str | None) -> None:
    """Durable background jobs, kept in the database you already have.

    Reads take --json for machines. Exit codes: 0 done, 1 the operation was refused, 2 usage.
    """
    if not isinstance(ctx.obj, Target):
        ctx.obj = Target.chosen(ctx, database, app)
    ctx.call_on_close(ctx.obj.close)
