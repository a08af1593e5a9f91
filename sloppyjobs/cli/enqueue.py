"""``enqueue``: one job from the command line."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click
import msgspec

from sloppyjobs.cli import output
from sloppyjobs.cli.params import Moment, Span, as_json, at, os_user
from sloppyjobs.cli.target import Target, pass_target
from sloppyjobs.domain.business_keys import ON_CONFLICT
from sloppyjobs.domain.model import Job

_SHOWN = ("id", "name", "queue", "status", "priority", "run_at", "created_at", "existing")


@click.command()
@click.argument("name")
@click.argument("payload", default="null")
@click.option("--queue", metavar="TEXT", help="Another queue than the definition's.")
@click.option("--priority", type=int, help="Higher runs first.")
@click.option("--delay", type=Span(), help="Not before so long from now.")
@click.option("--run-at", type=Moment(future=True), metavar="INSTANT", help="Not before this instant.")
@click.option("--idempotency-key", metavar="TEXT", help="With a key that is taken, the job that has it is answered.")
@click.option("--business-key", metavar="TEXT", help="With a key that a live job has, that job is answered.")
@click.option("--on-conflict", type=click.Choice(ON_CONFLICT), help="What to do where the business key is taken.")
@click.option("--expires", type=Span(), help="Cancelled unless it has started so long from now.")
@click.option("--tag", "tags", metavar="TEXT", multiple=True, help="A tag; may be repeated.")
@click.option("--max-attempts", type=click.IntRange(1), help="How often it is tried.")
@click.option("--timeout", type=Span(), help="How long an attempt may take.")
@click.option("--correlation-id", metavar="TEXT", help="To find it together with others.")
@click.option(
    "--principal", metavar="NAME", default=os_user, help="On whose behalf.  [default: the user of the system]"
)
@click.option("--wait", type=Span(), metavar="DURATION", help="Wait so long for it to finish; 1 if it did not succeed.")
@as_json
@pass_target
def enqueue(
    target: Target,
    /,
    name: str,
    payload: str,
    run_at: datetime | timedelta | None,
    wait: float | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Enqueue a job of the application.

    PAYLOAD is JSON; @file takes it from a file, and - from standard input. Without it the payload is null.
    """
    if target.app is None and target.given is None:
        raise click.UsageError(
            "the application says which jobs there are: sloppyjobs --app module:jobs enqueue NAME PAYLOAD"
        )
    job = target.jobs.enqueue(name, json_value(payload), run_at=at(run_at, target.now), **options)
    if wait is not None:
        job = target.jobs.wait(job.id, wait)
    shown = {field: getattr(job, field) for field in _SHOWN}
    output.emit(shown, as_json, lambda out: out.print(_said(job), soft_wrap=True))
    if wait is not None and job.status != "succeeded":
        click.get_current_context().exit(1)


def _said(job: Job) -> str:
    before = " (it was enqueued before with this key)" if job.existing else ""
    return f"{job.id} is {output.word(job.status)}{before}"


def json_value(given: str, of: str = "PAYLOAD") -> Any:
    """A value that was written as JSON; @file takes it from a file, and - from standard input."""
    try:
        text = sys.stdin.read() if given == "-" else Path(given[1:]).read_text() if given.startswith("@") else given
    except (OSError, UnicodeError) as error:
        raise click.BadParameter(f"cannot read {given[1:]}: {error}", param_hint=of) from error
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise click.BadParameter(
            f'is not JSON: {error}. Quote it for the shell, as in \'{{"to": "ada@example.com"}}\'',
            param_hint=of,
        ) from error
