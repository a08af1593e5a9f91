"""Keys compared as rows, for databases that make one range of an index of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, tuple_


def row_beyond(columns: Sequence[ColumnElement[Any]], values: Sequence[Any], descending: bool) -> ColumnElement[bool]:
    """``(a, b) > (x, y)``, or less where ``descending``: one range, even of rows with the same first value."""
    key, given = tuple_(*columns), tuple_(*values, types=[column.type for column in columns])
    return key < given if descending else key > given
