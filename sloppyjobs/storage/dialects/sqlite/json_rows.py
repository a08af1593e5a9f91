"""Queries whose rows come as one JSON value.

The interpreter releases its lock at every row that the driver steps to, and other threads are waiting for it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import Engine, Select

from sloppyjobs.storage.dialects.sqlite.result_codes import is_no_text
from sloppyjobs.storage.driver import Prepared


class JsonRows(Prepared):
    """A query whose rows come as one JSON array, in a single step."""

    __slots__ = ("_plain",)

    def __init__(self, statement: Select[Any], engine: Engine) -> None:
        super().__init__(statement, engine)
        self._plain = self.sql
        names = ", ".join(f"c{place}" for place in range(len(statement.selected_columns)))
        self.sql = f"WITH found ({names}) AS ({self.sql}) SELECT json_group_array(json_array({names})) FROM found"

    def rows(self, cursor: Any, values: Mapping[str, Any]) -> list[Any]:
        try:
            cursor.execute(self.sql, self.bind(values))
            found: list[Any] = msgspec.json.decode(cursor.fetchone()[0])
        except sqlite3.OperationalError as error:
            if not is_no_text(error):
                raise
            # JSON cannot hold a BLOB, as somebody has put in the place of text; a row can.
            found = cursor.execute(self._plain, self.bind(values)).fetchall()
        return found
