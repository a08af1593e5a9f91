"""What the numbers of MariaDB's and MySQL's errors mean."""

from __future__ import annotations

DUPLICATE = 1062

PACKET_TOO_LARGE = 1153

TRANSIENT = {
    1020,  # the row has changed since it was read
    1047,  # a node of a cluster that is not ready
    1053,  # the server is shutting down
    1180,  # an error during COMMIT, such as a node that has lost the others of its cluster
    1205,  # waited too long for a lock
    1213,  # a deadlock, or a transaction of another node of the cluster came first
    1305,  # no such savepoint: the deadlock has ended the whole transaction, and its savepoints with it
}
"""The same transaction may well succeed when it is retried."""

COMMIT_IN_DOUBT = 1180
"""The other nodes may have the transaction all the same."""

READ_ONLY = {
    1290,  # read_only
    1792,  # a transaction that may only read
    1836,  # running in read-only mode
}

WRONG_ADDRESS = {
    1044,  # no right to this database
    1045,  # no such user, or another password
    1049,  # no such database
    1698,  # the user may not log in like this
}

DENIED = {
    1142,  # no right to a table
    1143,  # no right to a column
}

TIMEOUT = {
    1317,  # interrupted by KILL QUERY
    1969,  # max_statement_time
    3024,  # max_execution_time
}

_RESOURCES = {
    1021,  # the disk is full
    1030,  # error of the storage engine
    1040,  # too many connections
    1041,  # out of memory
    1114,  # the table is full
    1203,  # too many connections of this user
    1226,  # a limit of this user
}

UNAVAILABLE = TRANSIENT | READ_ONLY | WRONG_ADDRESS | TIMEOUT | _RESOURCES
"""The server refuses to work. The numbers of clients, from 2000, say that it could not be reached."""


def code_of(error: object) -> int:
    """The number of an error of any driver, or SQLAlchemy's; 0 where there is none."""
    cause = getattr(error, "orig", None) or error
    arguments = getattr(cause, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else 0


def is_of_client(code: int) -> bool:
    """Whether the driver says it, not the server: no connection, or a broken one."""
    return 2000 <= code < 3000
