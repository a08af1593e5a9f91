"""``rekey`` and ``generate-key``: the keys of encryption at rest. No command takes or shows one that is in use."""

from __future__ import annotations

import click
from rich.console import Console

from sloppyjobs.cli import output
from sloppyjobs.cli.params import as_json, signed
from sloppyjobs.cli.retention import progress_bar
from sloppyjobs.cli.target import Target, pass_target

PASSES = 3
"""How often the tables are gone through where rows changed meanwhile."""


@click.command("generate-key")
def generate_key() -> None:
    """Print a new key for encryption at rest.

    Keep it where the application's other secrets are, as the first of SLOPPYJOBS_ENCRYPTION_KEYS.
    """
    from sloppyjobs.encryption import Keyring  # noqa: PLC0415

    click.echo(Keyring.generate())


@click.command()
@click.option(
    "--batch", type=click.IntRange(1, 10_000), default=1000, show_default=True, help="How many rows at a time."
)
@signed
@as_json
@pass_target
def rekey(target: Target, batch: int, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Encrypt with the first key what is not encrypted with it: under another key, or in the clear.

    Jobs, results, schedules, steps, log lines and the archive. Workers need not stop. It can be stopped and run again:
    what is done is not done again. Exit code 1 where something cannot be decrypted.
    """
    target.jobs.storage.ensure_schema()
    sealed = target.jobs.storage.sealed
    total = {"examined": 0, "rewritten": 0, "changed": 0, "unreadable": 0}
    number = sum(map(sealed.count, sealed.areas()))
    for _ in range(PASSES):
        found = dict.fromkeys(total, 0)
        with progress_bar("encrypting", number, as_json) as advance:
            cursor = None
            while True:
                step = target.admin.rekey(batch, cursor, actor=actor, reason=reason)
                for name in found:
                    found[name] += getattr(step, name)
                advance(step.examined)
                cursor = step.cursor
                if cursor is None:
                    break
        total = {**found, "rewritten": total["rewritten"] + found["rewritten"]}
        if not found["changed"]:
            break
    output.emit(total, as_json, lambda out: _render(out, total))
    if total["unreadable"]:
        click.get_current_context().exit(1)


def _render(out: Console, total: dict[str, int]) -> None:
    out.print(f"rows examined: {total['examined']:,}, encrypted with the first key: {total['rewritten']:,}")
    if total["changed"]:
        out.print(f"rows that changed meanwhile: {total['changed']:,}; run it again")
    if total["unreadable"]:
        out.print(
            f"[bold red]rows that cannot be decrypted: {total['unreadable']:,}; "
            "their key is not here, or they were changed[/]"
        )
