"""Locks on names, which the transaction owns: however it ends, they are released."""

from __future__ import annotations

from sqlalchemy import Connection, text

# A driver that leaves the beginning of transactions to the server has none before the first statement that reads a
# table: a call of a procedure does not begin one, and the lock would have no owner.
TAKE = text(
    "DECLARE @taken int; SELECT @taken = COUNT(*) FROM sys.schemas WHERE schema_id = 1; "
    "EXEC @taken = sp_getapplock @Resource = :resource, @LockMode = 'Exclusive', "
    "@LockOwner = 'Transaction', @LockTimeout = :timeout; SELECT @taken"
)


def take(connection: Connection, resource: str, timeout: int) -> bool:
    """Take the lock, waiting for so many milliseconds, -1 for ever; whether it is ours now."""
    taken: int = connection.execute(TAKE, {"resource": resource, "timeout": timeout}).scalar_one()
    return taken >= 0
