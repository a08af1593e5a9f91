"""Which servers can keep jobs: what is refused, and what to change."""

from __future__ import annotations

import re
from typing import NamedTuple

from sqlalchemy import Connection, text

from sloppyjobs import errors
from sloppyjobs.storage.schema.tables import Tables

OLDEST = {True: (10, 6), False: (8, 0)}
"""The versions that brought SKIP LOCKED and JSON_TABLE, of MariaDB and of MySQL."""

_STRICT = {"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"}


class Server(NamedTuple):
    """What a server says of itself, on one connection."""

    version: str
    is_mariadb: bool
    sql_mode: frozenset[str]
    foreign: tuple[str, ...]
    """Tables of ours in another engine than InnoDB, with its name."""

    @property
    def number(self) -> tuple[int, ...]:
        """The version, without what distributions add."""
        # Some proxies put the version of an old MySQL in front, for old clients.
        found = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)", self.version)
        return (0, 0) if found is None else (int(found[1]), int(found[2]))

    @property
    def product(self) -> str:
        """Its name."""
        return "MariaDB" if self.is_mariadb else "MySQL"

    @property
    def is_old(self) -> bool:
        """Whether it is older than the oldest that works."""
        return self.number < OLDEST[self.is_mariadb]

    @property
    def is_strict(self) -> bool:
        """Whether it refuses values that do not fit, instead of cutting them."""
        return not _STRICT.isdisjoint(self.sql_mode)

    @property
    def takes_blocks(self) -> bool:
        """Whether it takes blocks of statements, written as ours are: in Oracle's mode they are written otherwise."""
        return self.is_mariadb and "ORACLE" not in self.sql_mode


def ask(connection: Connection, tables: Tables) -> Server:
    """What this connection's server says."""
    version, mode = connection.exec_driver_sql("SELECT version(), @@SESSION.sql_mode").one()
    found = connection.execute(
        text(
            "SELECT table_name, engine FROM information_schema.tables "
            "WHERE table_schema = database() AND table_name IN :names AND engine <> 'InnoDB'"
        ).bindparams(names=tuple(sorted(table.name for table in tables.metadata.tables.values())))
    )
    foreign = tuple(f"{name} ({engine})" for name, engine in sorted(map(tuple, found)))
    return Server(version, "mariadb" in version.lower(), frozenset(mode.split(",")), foreign)


def refuse(server: Server) -> None:
    """Raise ``InvalidOption`` for a server that would lose or double jobs."""
    if server.is_old:
        mariadb, mysql = (".".join(map(str, OLDEST[kind])) for kind in (True, False))
        raise errors.InvalidOption(
            f"{server.product} {server.version} is too old for jobs, which need SKIP LOCKED and JSON_TABLE: upgrade to "
            f"MariaDB {mariadb} or MySQL {mysql}, or newer"
        )
    if not server.is_strict:
        raise errors.InvalidOption(
            "the server's sql_mode is not strict, so it would cut values that are too long and say nothing: add "
            "STRICT_TRANS_TABLES to sql_mode, in the server's configuration or for these connections"
        )
    if server.foreign:
        raise errors.InvalidOption(
            f"tables of jobs are not in InnoDB: {', '.join(server.foreign)}. Other engines have no transactions and no "
            "row locks; convert each with ALTER TABLE … ENGINE=InnoDB"
        )
