"""``init`` and ``sql``: the tables."""

from __future__ import annotations

import click

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
    type=click.Choice(["sqlite", "postgresql"]),
    help="For which database.  [default: that of --database or --app]",
)
@pass_target
def sql(target: Target, dialect: str | None) -> None:
    """Print the statements that create the tables.

    For people who apply them by hand. Nothing is connected to and nothing is changed.
    """
    if dialect is None:
        storage = target.connected().storage
    else:
        from sloppyjobs.storage import from_url  # noqa: PLC0415

        storage = from_url({"sqlite": "sqlite://", "postgresql": "postgresql://localhost/any"}[dialect])
    click.echo(storage.ddl().strip())
