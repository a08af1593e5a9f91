"""What SQLite's errors mean."""

from __future__ import annotations

import sqlite3

OF_THE_FILE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_NOMEM,
}
"""Result codes that speak of the file, not of the statement."""


def is_no_text(error: object) -> bool:
    """Whether a value is no text where text is expected."""
    return isinstance(error, sqlite3.OperationalError) and ("decode" in str(error) or "BLOB" in str(error))


def is_busy(error: BaseException | None) -> bool:
    """Whether another connection is writing."""
    return result_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def result_code(error: BaseException | None) -> int:
    """SQLite's primary result code; the extended ones only say more."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
