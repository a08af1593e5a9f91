"""Lists and rows that travel as one JSON value, and are read by ``OPENJSON``.

A statement takes at most 2,100 parameters there, and drivers take fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Subquery, TextClause, TextualSelect, bindparam, cast, collate, text
from sqlalchemy.dialects.mssql import NVARCHAR
from sqlalchemy.types import BigInteger, Boolean, Float, Integer, String, TypeEngine

from sloppyjobs.storage.dialect import json_parameter
from sloppyjobs.storage.dialects.sqlserver.schema import COLLATION, LONGEST_KEY
from sloppyjobs.storage.schema.instants import Instant

KEY = NVARCHAR(LONGEST_KEY)
"""Long enough for every key, and short enough to be looked for in an index."""

_SQL_TYPES: tuple[tuple[type[TypeEngine[Any]], str], ...] = (
    (Instant, "datetime2(6)"),
    (Boolean, "bit"),
    (BigInteger, "bigint"),
    (Integer, "int"),
    (Float, "float"),
    (String, "nvarchar(max)"),
)


def values_of(name: str) -> TextualSelect:
    """The texts of a JSON array, as keys."""
    found = text(f"SELECT [value] COLLATE {COLLATION} AS [value] FROM OPENJSON(:{name}) WITH ([value] {_key()} '$')")
    return found.bindparams(bindparam(name)).columns(value=KEY)


def rows_of(name: str, columns: Mapping[str, TypeEngine[Any]]) -> Subquery:
    """The rows of a JSON array of arrays, under the names of these columns."""
    return text_of_rows(name, columns).columns(**columns).subquery("given")


def text_of_rows(name: str, columns: Mapping[str, TypeEngine[Any]]) -> TextClause:
    """The query of these rows."""
    kinds = {column: _sql_type(kind) for column, kind in columns.items()}
    read = [f"[{column}]{_collated(kind)} AS [{column}]" for column, kind in kinds.items()]
    parts = [f"[{column}] {kind} '$[{place}]'" for place, (column, kind) in enumerate(kinds.items())]
    rows = text(f"SELECT {', '.join(read)} FROM OPENJSON(:{name}) WITH ({', '.join(parts)})")
    return rows.bindparams(json_parameter(name))


def as_key(given: ColumnElement[Any]) -> ColumnElement[Any]:
    """A given text as a key: compared with a longer one, the column would be converted and its index not be used."""
    return collate(cast(given, KEY), COLLATION)


def _sql_type(kind: TypeEngine[Any]) -> str:
    return next(name for known, name in _SQL_TYPES if isinstance(kind, known))


def _collated(sql_type: str) -> str:
    return f" COLLATE {COLLATION}" if sql_type.startswith("nvarchar") else ""


def _key() -> str:
    return f"nvarchar({KEY.length})"
