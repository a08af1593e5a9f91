"""Statements for the drivers' own cursors, with lists as values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import compress, count
from operator import itemgetter
from typing import Any

import msgspec
from sqlalchemy import Column, Dialect, Engine, Executable, Select, func
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.dml import Update

from sloppyjobs.storage.driver import Prepared

_LIST = re.compile(r"\(__\[POSTCOMPILE_(\w+)\]\)")
"""SQLAlchemy's mark for a list whose length is known only when the statement is executed."""


_PLAIN = re.compile(r"[0-9A-Za-z_,'-]*")
"""Texts in which nothing needs an escape, with what stands between them."""


def with_list(sql: str, mark: str, values: Sequence[str]) -> tuple[str, Any]:
    """The statement with this list in the place of its mark, and what the driver is to write there, if anything.

    Drivers take a list as a tuple, and escape each of its texts; of ids, which are many, that is most of the work.
    """
    text = "','".join(values)
    if values and _PLAIN.fullmatch(text) and text.count("'") == 2 * (len(values) - 1):
        return sql.replace(mark, f"('{text}')"), None
    # Nothing is equal to null, and an empty list is no SQL.
    return sql, tuple(values) or (None,)


_PLAIN_JSON = re.compile(r'[0-9A-Za-z_,.+"\[\]-]*')
"""JSON in which nothing needs an escape."""


def with_json(sql: str, mark: str, text: str) -> tuple[str, Any]:
    """The statement with this JSON in the place of its mark, and what the driver is to write there, if anything."""
    return (sql.replace(mark, f"'{text}'"), None) if _PLAIN_JSON.fullmatch(text) else (sql, text)


class WithLists(Prepared):
    """A statement that takes a list: PyMySQL and mysqlclient write a tuple as ``(1, 2, 3)``."""

    __slots__ = ("_list", "_mark")

    def __init__(self, statement: Executable, engine: Engine) -> None:
        super().__init__(statement, engine)
        names = _LIST.findall(self.sql)
        self._list: str | None = names[0] if names else None
        self._mark = f"%({self._list})s"
        self.sql = _LIST.sub(self._mark, self.sql)

    def dialect_for(self, engine: Engine) -> Dialect:
        """With parameters by name, which both drivers take."""
        named = copy(engine.dialect)
        named.paramstyle, named.positional = "pyformat", False
        return named

    def rows(self, cursor: Any, values: Mapping[str, Any]) -> list[Any]:
        self.run(cursor, values)
        return list(cursor.fetchall())

    def run(self, cursor: Any, values: Mapping[str, Any]) -> int:
        if self._list is None:
            return super().run(cursor, values)
        sql, given = with_list(self.sql, self._mark, values[self._list])
        cursor.execute(sql, {**self._fixed, **values, self._list: given})
        count: int = cursor.rowcount
        return count


MANY_OPTIONAL = 8
"""Columns without a value in most rows that are worth to be left out of these."""


OTHERWISE = "otherwise"
"""What a block answers that has not come to its query; no JSON."""


class JsonRows(WithLists):
    """A query whose rows come as one JSON array each: PyMySQL, in Python, takes long for every single value.

    Of rows of many columns that may be null, those in which all of these are come without them.
    """

    __slots__ = ("_plain", "_short", "_whole")

    def __init__(self, statement: Select[Any], engine: Engine) -> None:
        columns = list(statement.selected_columns)
        array = func.json_array(*columns)
        optional = [column for column in columns if isinstance(column, Column) and column.nullable]
        self._short: int | None = None
        self._whole: Callable[[list[Any]], list[Any]] | None = None
        if len(optional) >= MANY_OPTIONAL:
            required = [isinstance(column, Column) and not column.nullable for column in columns]
            plain = func.json_array(*compress(columns, required))
            array = getattr(func, "if")(func.coalesce(*optional).is_(None), plain, array)
            self._short, self._whole = sum(required), _with_nulls(required)
        super().__init__(statement.with_only_columns(array, maintain_column_froms=True), engine)
        self._plain = WithLists(statement, engine)

    def rows(self, cursor: Any, values: Mapping[str, Any]) -> list[Any]:
        return self._decoded(cursor, values, super().rows(cursor, values))

    def rows_in_block(self, cursor: Any, block: str, values: Mapping[str, Any]) -> list[Any] | None:
        """The rows, where the query is in a block; None where that has answered ``OTHERWISE``."""
        cursor.execute(block, {**self._fixed, **values})
        answer = list(cursor.fetchall())
        while cursor.nextset():
            pass
        return None if answer == [(OTHERWISE,)] else self._decoded(cursor, values, answer)

    def _decoded(self, cursor: Any, values: Mapping[str, Any], answer: Sequence[Sequence[Any]]) -> list[Any]:
        found = [row[0] for row in answer]
        if None in found:
            # A text that a function makes has a limit, which that of a column has not.
            return [list(row) for row in self._plain.rows(cursor, values)]
        rows: list[list[Any]] = msgspec.json.decode(f"[{','.join(found)}]")
        short, whole = self._short, self._whole
        return rows if whole is None else [whole(row) if len(row) == short else row for row in rows]


def _with_nulls(there: Sequence[bool]) -> Callable[[list[Any]], list[Any]]:
    """A function that puts the values of a row where they belong, and nulls between them."""
    places = count()
    pick = itemgetter(*(next(places) if one else -1 for one in there))

    def whole(row: list[Any]) -> list[Any]:
        row.append(None)
        return list(pick(row))

    return whole


class UpdateFromGiven(Update):
    """An update that reads the given rows first, and goes to each row of the table by primary key.

    Left to the optimizer, a small table is read as a whole, and every row in it is locked meanwhile.
    """

    inherit_cache = True

    @classmethod
    def of(cls, statement: Update) -> UpdateFromGiven:
        """The same update in this order."""
        made = cls.__new__(cls)
        made.__dict__ = statement.__dict__.copy()
        return made


@compiles(UpdateFromGiven)
def _update_from_given(statement: UpdateFromGiven, compiler: Any, **options: Any) -> str:
    def tables_clause(_statement: Any, table: Any, others: Sequence[Any], **kw: Any) -> str:
        kw["asfrom"] = True
        (given,) = (other._compiler_dispatch(compiler, **kw) for other in others)
        return f"{given} STRAIGHT_JOIN {table._compiler_dispatch(compiler, **kw)} FORCE INDEX (PRIMARY)"

    compiler.update_tables_clause = tables_clause
    text: str = compiler.visit_update(statement, **options)
    return text
