"""``flask init`` and ``flask sample``."""

from __future__ import annotations

import click
from flask.cli import with_appcontext

from importer import db, jobs
from importer.tasks import COLUMNS


@click.command()
@with_appcontext
def init() -> None:
    """Create the tables of the application and those of its jobs."""
    db.create_all()
    jobs.init()
    click.echo("ready")


@click.command()
@click.option("--tenants", default=3, show_default=True)
@click.option("--rows", default=20, show_default=True, help="Rows of each tenant.")
def sample(tenants: int, rows: int) -> None:
    """Print a price list, with one mistake in it."""
    click.echo(",".join(COLUMNS))
    for tenant in range(1, tenants + 1):
        for article in range(1, rows + 1):
            cents = -1 if (tenant, article) == (1, rows) else 100 * article
            click.echo(f"tenant-{tenant},article-{article},{cents}")
