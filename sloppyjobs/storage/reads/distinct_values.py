"""The distinct values of an index's column, one jump along the index for each: no rows in between are read.

Where the database can, all jumps are one recursive statement. Elsewhere every round is a statement, which asks for the
next value under many conditions at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, literal_column, select

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.reads.keyset import Keyset

Condition = tuple[ColumnElement[bool], ...]
_EMPTY: ColumnElement[str] = literal_column("''")


class DistinctValues:
    """Reads that skip from each value to the next."""

    def __init__(self, database: Database, keyset: Keyset) -> None:
        self.dialect = database.dialect
        self.keyset = keyset

    def of(self, connection: Connection, column: ColumnElement[Any], where: Condition, most: int) -> list[str]:
        """The first ``most`` values of a column of text, ascending; null is none of them."""
        if self.dialect.recursive_minimum:
            return list(connection.execute(_recursive(column, where, most)).scalars())
        [found] = self.of_each(connection, column, [where], most, most)
        return found

    def of_each(
        self, connection: Connection, column: ColumnElement[Any], conditions: Sequence[Condition], most: int, total: int
    ) -> list[list[str]]:
        """The first ``most`` values under each condition, round by round until there are ``total`` of them."""
        found: list[list[str]] = [[] for _ in conditions]
        unfinished = list(range(len(conditions)))
        while unfinished and sum(map(len, found)) < total:
            queries = [_next(column, conditions[place], found[place][-1:]) for place in unfinished]
            answers = self.keyset.each(connection, queries)
            values = {place: answer[0][0] for place, answer in zip(unfinished, answers, strict=True)}
            for place, value in values.items():
                found[place] += [] if value is None else [value]
            unfinished = [place for place in unfinished if values[place] is not None and len(found[place]) < most]
        return found


def _next(column: ColumnElement[Any], where: Condition, last: Sequence[str]) -> Select[Any]:
    # Everything but null is at least the empty text, and that is a range of the index.
    beyond = column > last[0] if last else column >= _EMPTY
    return select(func.min(column).label("value")).where(*where, beyond)


def _recursive(column: ColumnElement[Any], where: Condition, most: int) -> Select[Any]:
    first = select(func.min(column)).where(*where, column >= _EMPTY).scalar_subquery()
    values = select(first.label("value"), literal_column("1").label("place")).cte("skipped", recursive=True)
    beyond = select(func.min(column)).where(*where, column > values.c.value).scalar_subquery()
    step = select(beyond, values.c.place + literal_column("1"))
    values = values.union_all(step.where(values.c.value.is_not(None), values.c.place < most))
    return select(values.c.value).where(values.c.value.is_not(None))
