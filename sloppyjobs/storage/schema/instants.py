"""Instants in the database: one column type, UTC everywhere, microseconds kept.

A column may hold what Python has no ``datetime`` for. Such a value is read as ``EARLIEST`` or ``LATEST``, by how it
sorts, so that one damaged row does not keep a page or a sweep from reading its neighbours.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, DateTime, Dialect, type_coerce
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from sloppyjobs.storage.dialects import column_types
from sloppyjobs.storage.schema.style import COMMON_TYPES, ColumnTypes


def types_of(dialect: Dialect) -> ColumnTypes:
    """The types of the database that a statement is compiled for."""
    return column_types().get(dialect.name, COMMON_TYPES)


class WithinRange(FunctionElement[Any]):
    """A column of instants, with those that the driver could not read replaced by the nearest that it can."""

    name = "within_range"
    inherit_cache = True

    def __init__(self, column: ColumnElement[Any]) -> None:
        super().__init__(column)
        self.type = column.type


@compiles(WithinRange)
def _within_range(element: WithinRange, compiler: Any, **kw: Any) -> str:
    return types_of(compiler.dialect).within_range(compiler.process(element.clauses, **kw))


class Later(FunctionElement[Any]):
    """An instant and a number of seconds, added by the database."""

    name = "later"
    inherit_cache = True

    def __init__(self, instant: ColumnElement[Any], seconds: ColumnElement[Any]) -> None:
        super().__init__(instant, seconds)
        self.type = instant.type


@compiles(Later)
def _later(element: Later, compiler: Any, **kw: Any) -> str:
    instant, seconds = (compiler.process(part, **kw) for part in element.clauses)
    return types_of(compiler.dialect).later(instant, seconds)


class Instant(TypeDecorator[datetime]):
    """An aware ``datetime`` in UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """As the database keeps it."""
        return dialect.type_descriptor(types_of(dialect).instant())

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """How the column is selected."""
        return WithinRange(column)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """What the driver is given. What stands for a value out of range sorts where that does."""
        return None if value is None else types_of(dialect).instant_to_driver(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """What the driver gave, as an aware instant."""
        return None if value is None else types_of(dialect).instant_from_driver(value)


class _AsStored(Instant):
    """An instant in the driver's own form, so that reading a damaged one cannot fail."""

    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        return value

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        return value

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        return column


def as_stored(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A column of instants without their conversion."""
    return type_coerce(WithinRange(column), _AsStored())
