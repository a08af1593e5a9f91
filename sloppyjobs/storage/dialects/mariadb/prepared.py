"""Statements for the drivers' own cursors, with lists as values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Engine, Executable
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.dml import Update

from sloppyjobs.storage.driver import Prepared

_LIST = re.compile(r"\(__\[POSTCOMPILE_(\w+)\]\)")
"""SQLAlchemy's mark for a list whose length is known only when the statement is executed."""


class WithLists(Prepared):
    """A statement that takes lists: PyMySQL and mysqlclient write a tuple as ``(1, 2, 3)``."""

    __slots__ = ("_lists",)

    def __init__(self, statement: Executable, engine: Engine) -> None:
        super().__init__(statement, engine)
        self._lists = tuple(_LIST.findall(self.sql))
        self.sql = _LIST.sub("%s" if self._names is not None else r"%(\1)s", self.sql)

    def bind(self, values: Mapping[str, Any]) -> Any:
        for name in self._lists:
            # Nothing is equal to null, and an empty list is no SQL.
            values = {**values, name: tuple(values[name]) or (None,)}
        return super().bind(values)

    def rows(self, cursor: Any, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return list(super().rows(cursor, values))


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
