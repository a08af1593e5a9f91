"""Rows that travel as one JSON text, and are read by the server as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Float, Integer, Text
from sqlalchemy.types import TypeEngine

from sloppyjobs.storage.schema.column_types import NAME_LENGTH
from sloppyjobs.storage.schema.instants import Instant

_KEYS = ("id", "job_id")


def json_table(parameter: str, columns: Mapping[str, TypeEngine[Any]], alias: str) -> str:
    """``JSON_TABLE`` over an array of arrays, with a column for each of their places."""
    parts = (f"`{name}` {_type(name, kind)} PATH '$[{place}]'" for place, (name, kind) in enumerate(columns.items()))
    return f"JSON_TABLE({parameter}, '$[*]' COLUMNS ({', '.join(parts)})) AS {alias}"


def json_keys(parameter: str, alias: str) -> str:
    """``JSON_TABLE`` over an array of ids."""
    return f"JSON_TABLE({parameter}, '$[*]' COLUMNS (`id` {_type('id', Text())} PATH '$')) AS {alias}"


def _type(name: str, kind: TypeEngine[Any]) -> str:
    if isinstance(kind, Instant):
        return "DATETIME(6)"
    if isinstance(kind, Float):
        return "DOUBLE"
    if isinstance(kind, Integer):
        return "BIGINT"
    # Keys must be short text, or they are not looked up by index. The database's own character set may lack characters.
    return f"{f'VARCHAR({NAME_LENGTH})' if name in _KEYS else 'LONGTEXT'} CHARACTER SET utf8mb4"
