"""Locks on names, which the transaction owns: however it ends, they are released."""

from __future__ import annotations

from sqlalchemy import Connection, text

TAKE = text(
    "DECLARE @taken int; EXEC @taken = sp_getapplock @Resource = :resource, @LockMode = 'Exclusive', "
    "@LockOwner = 'Transaction', @LockTimeout = :timeout; SELECT @taken"
)


def take(connection: Connection, resource: str, timeout: int) -> bool:
    """Take the lock, waiting for so many milliseconds, -1 for ever; whether it is ours now."""
    taken: int = connection.execute(TAKE, {"resource": resource, "timeout": timeout}).scalar_one()
    return taken >= 0
