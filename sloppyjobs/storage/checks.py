"""Checks of the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from sloppyjobs.storage.ports.findings import FAIL, OK, WARN, Finding
from sloppyjobs.storage.schema import version as schema_version

if TYPE_CHECKING:
    from sloppyjobs.storage.store import SqlStore

RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")

Check = Callable[["SqlStore", Connection], Iterator[Finding]]


def claim_plan(good: bool, detail: str) -> Finding:
    """Whether the claim goes through its index."""
    if good:
        return Finding("claim plan", OK, detail)
    return Finding("claim plan", FAIL, detail, "see that the indexes are there, and run ANALYZE")


def rights(missing: Sequence[str], who: str) -> Finding:
    """Whether the tables can be read and written, by what is missing."""
    if not missing:
        return Finding("rights", OK, "reads and writes every table")
    shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
    hint = f"GRANT {', '.join(RIGHTS)} on the tables of sloppyjobs to {who}"
    return Finding("rights", FAIL, f"missing: {shown}", hint)


def row_locks(storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    """Whether a second connection passes over a row that the first has locked. Nothing is written."""
    version = schema_version.table(storage.tables).c.version_num
    connection.execute(storage.dialect.locked(select(version))).all()
    with storage.engine.connect() as other:
        seen = other.execute(storage.dialect.locked(select(version), skip=True)).all()
    if seen:
        hint = "claims of several workers meet more often; the conditional update still lets one of them have a job"
        yield Finding("row locks", WARN, "a row that one connection has locked is not skipped by another", hint)
    else:
        yield Finding("row locks", OK, "a row that one connection has locked is skipped by another")
