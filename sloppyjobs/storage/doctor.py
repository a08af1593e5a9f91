"""What can be wrong with a database: its schema, its settings, its indexes, and the plan of the claim.

Every check only reads. None of them stops the others: what raises is itself a finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect

from sloppyjobs.storage.checks import Check
from sloppyjobs.storage.ports.findings import FAIL, OK, WARN, Finding
from sloppyjobs.storage.schema.version import VERSION
from sloppyjobs.storage.shown_urls import without_secrets

if TYPE_CHECKING:
    from sloppyjobs.storage.store import SqlStore

SKEW_SECONDS = 5.0


class Doctor:
    """The checks of one database."""

    def __init__(self, storage: SqlStore) -> None:
        self._storage = storage

    def diagnose(self) -> list[Finding]:
        """Check the database. Without our tables, or with those of another version, the rest is left out."""
        storage = self._storage
        found = _run(storage, "schema", _schema)
        if any(finding.status == FAIL for finding in found):
            return found
        checks: dict[str, Check] = {"clock": _clock, "indexes": _indexes}
        checks |= storage.dialect.checks()
        for name, check in checks.items():
            found += _run(storage, name, check)
        return found


def _run(storage: SqlStore, name: str, check: Check) -> list[Finding]:
    try:
        return storage.database.read(lambda connection: list(check(storage, connection)))
    except Exception as error:
        said = (str(getattr(error, "orig", None) or error).splitlines() or [""])[0]
        said = without_secrets(said, storage.engine.url)
        return [Finding(name, FAIL, f"{type(error).__name__}: {said}", "see whether the database can be reached")]


def _schema(storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    found = storage.schema_version(connection)
    if found == VERSION:
        yield Finding("schema", OK, f"version {found}")
    elif found is None:
        yield Finding("schema", FAIL, "the tables are not there", "run `sloppyjobs init`")
    elif found < VERSION:
        yield Finding("schema", FAIL, f"version {found}, this needs {VERSION}", "run `sloppyjobs init`")
    else:
        yield Finding("schema", FAIL, f"version {found}, this knows {VERSION}", "upgrade sloppyjobs")


def _clock(storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    before = datetime.now(UTC)
    theirs = storage.database.now(connection)
    ours = before + (datetime.now(UTC) - before) / 2
    skew = (theirs - ours).total_seconds()
    detail = f"the database is {abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} this host"
    if abs(skew) < 0.1:
        detail = "the database and this host agree"
    if abs(skew) < SKEW_SECONDS:
        yield Finding("clock", OK, detail)
    else:
        yield Finding(
            "clock", WARN, detail, "jobs go by the database's clock and are safe; synchronise both for readable logs"
        )


def _indexes(storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    there = inspect(connection)
    missing = []
    for table in storage.tables.metadata.sorted_tables:
        names = {index["name"] for index in there.get_indexes(table.name, schema=table.schema)}
        missing += sorted(str(index.name) for index in table.indexes if index.name not in names)
    if missing:
        hint = "create them as `sloppyjobs sql` prints them"
        yield Finding("indexes", FAIL, f"missing: {', '.join(missing)}", hint)
    else:
        number = sum(len(table.indexes) for table in storage.tables.metadata.sorted_tables)
        yield Finding("indexes", OK, f"all {number} are there")
