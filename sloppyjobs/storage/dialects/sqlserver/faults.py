"""What errors of SQL Server mean, whichever driver reports them.

pymssql has the server's number as a value, pyodbc has it in the text, mssql-python has the text alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

DEADLOCK = 1205
LOCK_TIMEOUT = 1222
DUPLICATES = frozenset({2601, 2627})
READ_ONLY = frozenset({3906, 3908, 978, 979})
"""The database is read-only, or a secondary of an availability group."""
NO_SUCH_DATABASE = frozenset({4060, 911})
DENIED = frozenset({229, 230, 262})

ENDED = frozenset({3903, 6401})
"""Nothing to roll back: the error before has ended the whole transaction, also where only a savepoint is asked for."""

TRANSIENT = frozenset(
    {
        DEADLOCK,
        LOCK_TIMEOUT,
        3960,  # a snapshot met a newer row
        596,  # the session was killed
        6005,  # a shutdown is in progress
        921,  # the database is not there yet after a start
        922,
        952,
        976,  # the availability group is changing its primary
        983,
        40197,  # the rest is Azure's: it moves databases, and limits what they do at once
        40501,
        40613,
        49918,
        49919,
        49920,
    }
)
AWAY = frozenset(
    {
        *NO_SUCH_DATABASE,
        *READ_ONLY,
        18456,  # the login failed
        18452,
        1105,  # no room for data
        9002,  # no room for the log
        701,  # no memory
        8645,
        1204,  # no more locks
        17142,  # the service is paused
        17809,  # no more connections
        18401,  # the server is being upgraded
        926,  # the database is suspect, being restored or offline
        927,
        942,
        40615,  # the firewall refuses this client
    }
)
"""The server refuses to work, for now or until somebody changes something."""

QUERY_TIMEOUT = re.compile(r"query timeout expired|timeout expired|HYT00|DBPROCESS is dead.*20003", re.IGNORECASE)

_NO_CONNECTION = re.compile(
    r"unable to establish connection|\b08001\b|Adaptive Server connection failed", re.IGNORECASE
)

_IN_TEXT = re.compile(r"\((\d{3,5})\) \(SQL")
"""pyodbc ends the server's message with its number and the name of the ODBC function."""

# English, which sessions of our own making speak; and what Babelfish says.
_MESSAGES = (
    (re.compile(r"was deadlocked on|Serialization failure|deadlock detected", re.IGNORECASE), DEADLOCK),
    (re.compile(r"Lock request time ?out|canceling statement due to lock timeout", re.IGNORECASE), LOCK_TIMEOUT),
    (re.compile(r"duplicate key|Violation of (PRIMARY|UNIQUE) KEY", re.IGNORECASE), 2627),
    (re.compile(r"update conflict", re.IGNORECASE), 3960),
    (re.compile(r"database is read-only|read-only transaction", re.IGNORECASE), 3906),
    (re.compile(r"Cannot open database|database \S+ does not exist", re.IGNORECASE), 4060),
    (re.compile(r"permission (was )?denied", re.IGNORECASE), 229),
    (re.compile(r"Login failed", re.IGNORECASE), 18456),
    (re.compile(r"no corresponding BEGIN TRANSACTION|can only be used in transaction blocks", re.IGNORECASE), 3903),
    (re.compile(r"No transaction or savepoint of that name|savepoint \S+ does not exist", re.IGNORECASE), 6401),
    (re.compile(r"is being recovered|has not been recovered yet", re.IGNORECASE), 922),
    (re.compile(r"middle of a restore", re.IGNORECASE), 927),
    (re.compile(r"because it is offline", re.IGNORECASE), 942),
)


def number(error: BaseException | None) -> int | None:
    """The server's number of the error; None where the driver itself speaks.

    Of a rollback that found no transaction, it is the number of the error that has ended it, where that is known.
    """
    found = None if error is None else _number(error)
    if error is None or found not in ENDED:
        return found
    before = (_number(getattr(one, "orig", None) or one) for one in _handled(error))
    return next((one for one in before if one is not None and one not in ENDED), found)


def _number(error: BaseException) -> int | None:
    for found in _values(error):
        if isinstance(found, int):
            return found
    text = str(error)
    shown = _IN_TEXT.search(text)
    if shown:
        return int(shown[1])
    return next((meant for pattern, meant in _MESSAGES if pattern.search(text)), None)


def never_connected(error: BaseException | None) -> bool:
    """Whether there was no connection that could have been lost: nobody answers at this address."""
    return _NO_CONNECTION.search(str(error)) is not None


def _handled(error: BaseException) -> Iterator[BaseException]:
    """The errors that were being handled when this one was raised, the last first."""
    before = error.__context__
    while before is not None:
        yield before
        before = before.__context__


def _values(error: BaseException) -> Iterator[object]:
    for value in error.args[:1]:
        yield value[0] if isinstance(value, tuple) and value else value
