"""``patch``: another payload for a job that waits or is dead."""

from __future__ import annotations

from typing import IO, Any

import click
import msgspec

from sloppyjobs.cli import output
from sloppyjobs.cli.params import as_json, signed
from sloppyjobs.cli.target import Target, pass_target


@click.command()
@click.argument("id")
@click.argument("merge_patch", required=False, metavar="[PATCH]")
@click.option("--file", type=click.File("rb"), help="Read the patch from a file; - is the standard input.")
@signed
@as_json
@pass_target
def patch(
    target: Target,
    id: str,
    merge_patch: str | None,
    file: IO[bytes] | None,
    actor: str | None,
    reason: str | None,
    as_json: bool,
) -> None:
    """Change keys of a job's payload, without showing it.

    PATCH is a JSON merge patch: an object with the keys that change, of which null removes one. Others stay as they
    are. The job waits or is dead; one that runs is refused. A secret is better read with --file - than written on the
    command line, where other users of the machine may see it.
    """
    if (merge_patch is None) == (file is None):
        raise click.UsageError("give the patch as an argument, or with --file")
    job_id = target.admin.whole_id(id)
    job = target.admin.patch_payload(
        job_id, _decoded(merge_patch if file is None else file.read()), actor=actor, reason=reason
    )
    output.emit(job, as_json, lambda out: out.print(f"{job.id} is {output.word(job.status)}, patched", soft_wrap=True))


def _decoded(text: str | bytes | None) -> Any:
    try:
        return msgspec.json.decode(text or b"")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        # Without the text, which may be a secret.
        raise click.UsageError("the patch is not JSON") from None
