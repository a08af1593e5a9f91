"""``init`` and ``sql``: the tables."""

from __future__ import annotations

import click

from sloppyjobs import storage
from sloppyjobs.cli.target import Target, pass_target


@click.command()
@pass_target
def init(target: Target) -> None:
    """Create the tables, or bring them up to date.

    Safe to repeat, and to run from several places at once.
    """
    version = target.connected().init()
    click.echo(f"{target.where()} has the tables of schema version {version}")


@click.command()
@click.option(
    "--dialect",
    type=click.Choice(storage.BACKENDS),
    help="For which database.  [default: that of --database or --app]",
)
@pass_target
def sql(target: Target, dialect: str | None) -> None:
    """Print the statements that create the tables.

    For people who apply them by hand. Nothing is connected to and nothing is changed.
    """
    kept = target.connected().storage if dialect is None else storage.offline(dialect)
    click.echo(kept.ddl().strip())
