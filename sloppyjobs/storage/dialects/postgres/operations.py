"""The hot operations: by psycopg 3, over one pool of connections in autocommit mode; by others, as far as they can."""

from __future__ import annotations

from functools import partial

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.postgres import drivers, statements
from sloppyjobs.storage.dialects.postgres.autocommit_pool import pool_for
from sloppyjobs.storage.dialects.postgres.insert import PostgresInsert
from sloppyjobs.storage.dialects.postgres.single_insert import SingleInsert
from sloppyjobs.storage.dialects.postgres.turns import PostgresClaims
from sloppyjobs.storage.operations import Operations


def operations(database: Database, channel: str | None) -> Operations:
    """Insert and claim for this database; workers are notified on the channel, if there is one."""
    name, sql = drivers.driver_name(database.engine), statements.statements(database.tables, channel)
    if name in drivers.BY_NAME:
        return Operations(insert=partial(SingleInsert, sql=sql))
    if name != drivers.FAST:
        return Operations()
    pool = pool_for(database)
    return Operations(
        insert=partial(PostgresInsert, pool=pool, sql=sql), claims=partial(PostgresClaims, pool=pool, sql=sql)
    )
