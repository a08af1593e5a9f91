"""What the user of a connection may do, by statements that touch no row and no table.

Servers tell of rights in several places and by several names, but they see to the rights before they look at anything
else of a statement.
"""

from __future__ import annotations

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from sloppyjobs import errors
from sloppyjobs.storage.dialects.mariadb.error_codes import DENIED, code_of, is_of_client
from sloppyjobs.storage.schema.tables import Tables

_NEEDED = {
    "CREATE": "CREATE TABLE {table} (id INTEGER, id INTEGER)",
    "INDEX": "CREATE INDEX ix ON {table} (id)",
    "ALTER": "ALTER TABLE {table} ADD COLUMN id INTEGER",
    "SELECT": "SELECT 1 FROM {table} WHERE 1 = 0",
    "INSERT": "INSERT INTO {table} (id) SELECT NULL FROM DUAL WHERE 1 = 0",
    "UPDATE": "UPDATE {table} SET id = id WHERE 1 = 0",
    "DELETE": "DELETE FROM {table} WHERE 1 = 0",
}
"""What ``init`` does in a database without our tables. None of it can succeed."""


def denied(connection: Connection, statement: str) -> bool:
    """Whether the server refuses the statement for want of a right, and not for what else is wrong with it."""
    try:
        connection.exec_driver_sql(statement)
    except DBAPIError as error:
        if is_of_client(code_of(error)):
            raise
        return code_of(error) in DENIED
    return False


def refuse_to_create(connection: Connection, tables: Tables) -> None:
    """``InvalidOption`` where this user may not do all that makes our tables.

    A statement that defines a table cannot be rolled back: without this, the tables before it would be left.
    """
    there = text("SELECT 1 FROM information_schema.tables WHERE table_schema = :database AND table_name = :name")
    user, database = connection.exec_driver_sql("SELECT current_user(), database()").one()
    database = tables.schema or database
    if connection.scalar(there, {"database": database, "name": tables.jobs.name}):
        return
    table = connection.dialect.identifier_preparer.format_table(tables.jobs)
    missing = [right for right, statement in _NEEDED.items() if denied(connection, statement.format(table=table))]
    if missing:
        raise errors.InvalidOption(
            f"{user} may not create the tables of jobs, and nothing was created: GRANT {', '.join(missing)} ON "
            f"`{database}`.* to it, or let somebody who may run what `sloppyjobs sql` prints"
        )
