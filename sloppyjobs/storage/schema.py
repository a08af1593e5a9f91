"""The schema's version: read it, check it, bring it up to date.

Alembic does the migrating, on our own version table and under a database-wide lock, so that eight processes
which start at once migrate once. Nothing is written to a schema that is newer than this code.
"""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select, update

from sloppyjobs import errors
from sloppyjobs.storage import addresses
from sloppyjobs.storage.answer_timeout import NO_LIMIT, answer_timeout
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.instants import Instant

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

VERSION = 8
"""The schema version that this code works with."""

MIGRATIONS = Path(__file__).parent / "migrations"

# Alembic's `op` is a module-wide proxy: one migration at a time in a process.
_one_at_a_time = threading.Lock()


class Schema(Database):
    """Creation, upgrade and check of the tables."""

    _checked = False

    def init(self) -> int:
        """Create the tables or bring them up to date; safe to repeat and to race. Returns the version."""
        with _one_at_a_time, answer_timeout(at_least=NO_LIMIT):
            self.prepare_database()
            version = self._again(self._migrate)
        self._checked = True
        return version

    def schema_version(self, connection: Connection | None = None) -> int | None:
        """The version of the tables that are there, or None."""
        return self.read(self._read_version, connection)

    def ensure_schema(self, connection: Connection | None = None) -> None:
        """Raise unless the tables have exactly the version of this code. Asked of the database once."""
        if self._checked:
            return
        self._refuse_other_versions(self.schema_version(connection))
        self._checked = True

    def ddl(self) -> str:
        """The statements that create the schema, for people who apply them by hand."""
        printed = io.StringIO()
        with _one_at_a_time:
            self._run_alembic(None, printed)
        return self.preparation + printed.getvalue()

    preparation = ""
    """What ``prepare_database`` does, as SQL."""

    def prepare_database(self) -> None:
        """What must be set on the database itself before there are tables."""

    def lock_migrations(self, connection: Connection) -> None:
        """Wait until no other process migrates, until the end of the transaction."""
        raise NotImplementedError

    def _migrate(self) -> int:
        with self.writing() as connection:
            self.lock_migrations(connection)
            found = self._read_version(connection)
            if found is not None and found > VERSION:
                self._refuse_other_versions(found)
            if found == VERSION:
                return VERSION
            self._version_table().create(connection, checkfirst=True)
            self._run_alembic(connection, None)
            connection.execute(update(self._version_table()).values(updated_at=self.now(connection)))
            return VERSION

    def _read_version(self, connection: Connection) -> int | None:
        if not inspect(connection).has_table(self.tables.schema_name, schema=self.tables.schema):
            return None
        number = connection.execute(select(self._version_table().c.version_num)).scalar_one_or_none()
        return None if number is None else int(number)

    def _version_table(self) -> Table:
        return Table(
            self.tables.schema_name,
            MetaData(),
            # Alembic's own column, which it updates by name; the time beside it is ours.
            Column("version_num", String(32), primary_key=True),
            Column("updated_at", Instant),
            schema=self.tables.schema,
        )

    def _refuse_other_versions(self, found: int | None) -> None:
        where = addresses.shown(self.engine.url)
        if found is None:
            raise errors.SchemaMissing(
                f"the tables of sloppyjobs are not in {where}; create them with "
                f"`sloppyjobs --database {where} init`, `flask jobs init` or jobs.init()"
            )
        if found > VERSION:
            raise errors.SchemaVersionMismatch(
                f"{where} has schema version {found}, which is newer than this library knows ({VERSION}); "
                "upgrade sloppyjobs. Nothing was written"
            )
        if found < VERSION:
            raise errors.SchemaVersionMismatch(
                f"{where} has schema version {found}, this library needs {VERSION}; upgrade it with "
                f"`sloppyjobs --database {where} init`, `flask jobs init` or jobs.init()"
            )

    def _run_alembic(self, connection: Connection | None, printed: io.StringIO | None) -> None:
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
                dialect_name=None if connection is not None else self.engine.dialect.name,
                output_buffer=printed,
                version_table=self.tables.schema_name,
                version_table_schema=self.tables.schema,
                transactional_ddl=True,
                literal_binds=connection is None,
                sloppy_tables=self.tables,
            )
            if printed is not None:
                # Alembic writes the version table itself here, and knows nothing of the time beside its column.
                environment.get_context()._version.append_column(Column("updated_at", Instant))
            with environment.begin_transaction():
                environment.run_migrations()


def _environment(kind: type[Any], config: Config, script: ScriptDirectory, *, as_sql: bool) -> Any:
    def upgrade(revision: Any, _context: Any) -> Any:
        return script._upgrade_revs("head", revision)

    return kind(config, script, fn=upgrade, as_sql=as_sql, starting_rev=None, destination_rev="head")
