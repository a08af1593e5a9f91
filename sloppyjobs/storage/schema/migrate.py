"""The schema's version: read it, check it, bring it up to date.

Alembic does the migrating, on our own version table and under a database-wide lock, so that eight processes
which start at once migrate once. Nothing is written to a schema that is newer than this code.

Where DDL is transactional, a migration is one transaction, and the lock ends with it. Elsewhere the lock is a lease,
and each step looks whether it was done already: what a killed process has begun, the next one finishes.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Connection, update

from sloppyjobs.storage.answer_timeout import NO_LIMIT, answer_timeout
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.schema import version as schema_version
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.migration_lease import MigrationLease
from sloppyjobs.storage.schema.version import VERSION

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

MIGRATIONS = Path(__file__).parent / "migrations"

HEAD = "head"
"""Alembic's word for the newest version."""

# Alembic's `op` is a module-wide proxy: one migration at a time in a process.
_one_at_a_time = threading.Lock()


class Migrations:
    """Creation and upgrade of the tables."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables

    def init(self) -> int:
        """Create the tables or bring them up to date; safe to repeat and to race. Returns the version."""
        with _one_at_a_time, answer_timeout(at_least=NO_LIMIT):
            self.database.read(self.dialect.refuse_server)
            self.database.retry(lambda: self.dialect.prepare_database(self.database.engine))
            version = self.database.retry(self._migrate)
        self.database.schema_checked = True
        return version

    def ddl(self) -> str:
        """The statements that create the schema, for people who apply them by hand."""
        printed = io.StringIO()
        with _one_at_a_time:
            self._run_alembic(None, printed)
        return self.dialect.preparation + printed.getvalue()

    def _migrate(self) -> int:
        if self.dialect.transactional_ddl:
            with self.database.writing() as connection:
                self.dialect.lock_migrations(connection)
                return self._bring_up_to_date(connection)
        self.database.read(self.dialect.refuse_rights)
        if self._is_there(self.database.read(lambda c: schema_version.read(self.tables, c))):
            return VERSION
        lease = MigrationLease(self.database)
        with lease.held(), self.database.writing() as connection:
            return self._bring_up_to_date(connection, lease.ensure_held)

    def _is_there(self, found: int | None) -> bool:
        if found is not None and found > VERSION:
            schema_version.refuse(self.database.engine.url, found)
        return found == VERSION

    def _bring_up_to_date(self, connection: Connection, before_step: Callable[[], None] | None = None) -> int:
        if not self._is_there(schema_version.read(self.tables, connection)):
            schema_version.table(self.tables).create(connection, checkfirst=True)
            self._run_alembic(connection, None, before_step)
            connection.execute(
                update(schema_version.table(self.tables)).values(updated_at=self.database.now(connection))
            )
        return VERSION

    def _run_alembic(
        self,
        connection: Connection | None,
        printed: io.StringIO | None,
        before_step: Callable[[], None] | None = None,
    ) -> None:
        from alembic.config import Config  # noqa: PLC0415 - slow to import, needed once in a process' life
        from alembic.runtime.environment import EnvironmentContext  # noqa: PLC0415
        from alembic.script import ScriptDirectory  # noqa: PLC0415

        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.set_main_option("path_separator", "os")
        config.attributes["tables"] = self.tables
        script = ScriptDirectory.from_config(config)
        with _environment(EnvironmentContext, config, script, as_sql=connection is None) as environment:
            environment.configure(
                connection=connection,
                dialect_name=None if connection is not None else self.database.engine.dialect.name,
                output_buffer=printed,
                version_table=self.tables.schema_name,
                version_table_schema=self.tables.schema,
                transactional_ddl=self.dialect.transactional_ddl,
                literal_binds=connection is None,
                sloppy_tables=self.tables,
                sloppy_before_step=before_step,
            )
            if printed is not None:
                # Alembic writes the version table itself here, and knows nothing of the time beside its column.
                table = environment.get_context()._version
                table.append_column(Column("updated_at", Instant))
                table.kwargs.update(self.tables.style.table_options)
            with environment.begin_transaction():
                environment.run_migrations()


def _environment(kind: type[Any], config: Config, script: ScriptDirectory, *, as_sql: bool) -> Any:
    def upgrade(revision: Any, _context: Any) -> Any:
        return script._upgrade_revs(HEAD, revision)

    return kind(config, script, fn=upgrade, as_sql=as_sql, starting_rev=None, destination_rev=HEAD)
