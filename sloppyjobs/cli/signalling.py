"""``signal``: what a job's handler waits for."""

from __future__ import annotations

from typing import IO, Any

import click
import msgspec

from sloppyjobs.cli import output
from sloppyjobs.cli.params import as_json, signed
from sloppyjobs.cli.target import Target, pass_target


@click.command()
@click.argument("id")
@click.argument("name")
@click.argument("value", required=False, metavar="[VALUE]")
@click.option("--file", type=click.File("rb"), help="Read the value from a file; - is the standard input.")
@click.option("--business-key", is_flag=True, help="ID is the business key of a live job.")
@signed
@as_json
@pass_target
def signal(
    target: Target,
    id: str,
    name: str,
    value: str | None,
    file: IO[bytes] | None,
    business_key: bool,
    actor: str | None,
    reason: str | None,
    as_json: bool,
) -> None:
    """Send a job the signal that its handler waits for.

    VALUE is JSON: what ctx.wait_for(NAME) returns; null where it is left out. A signal is kept until the handler asks
    for it. The first one of a name counts: a second one changes nothing, and the exit code is 1. A job that has
    finished is refused.
    """
    if value is not None and file is not None:
        raise click.UsageError("give the value as an argument, or with --file")
    given = _decoded(value or b"null" if file is None else file.read())
    where = {"business_key": id} if business_key else {"id": target.admin.whole_id(id)}
    sent = target.admin.signal(name=name, payload=given, actor=actor, reason=reason, **where)
    said = f"signal {output.plain(name)} sent" if sent else f"not sent: the job has the signal {output.plain(name)}"
    output.emit({"accepted": sent}, as_json, lambda out: out.print(said, soft_wrap=True))
    if not sent:
        click.get_current_context().exit(1)


def _decoded(text: str | bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        # Without the text, which may be a secret.
        raise click.UsageError("the value is not JSON; quote it for the shell, as in '{\"yes\": true}'") from None
