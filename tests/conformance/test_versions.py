"""Which databases the suite runs on, for the report of ``make conformance-report``."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import text

from sloppyjobs.storage import SqlStore

VERSIONS = {
    "sqlite": "SELECT sqlite_version()",
    "postgresql": "SHOW server_version",
    "mysql": "SELECT version()",
    "mariadb": "SELECT version()",
    "mssql": "SELECT coalesce('Babelfish ' + CAST(SERVERPROPERTY('BabelfishVersion') AS nvarchar(64)), @@version)",
}


def test_the_database_says_which_version_it_is(
    make_storage: Callable[..., SqlStore], record_property: Callable[[str, object], None]
) -> None:
    engine = make_storage().engine
    with engine.connect() as connection:
        version = str(connection.execute(text(VERSIONS[engine.dialect.name])).scalar_one())
    assert version
    record_property("version", version.splitlines()[0])
    record_property("driver", engine.dialect.driver)
