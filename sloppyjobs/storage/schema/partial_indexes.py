"""Indexes over some of the rows of a table, as the database makes them."""

from __future__ import annotations

from sqlalchemy import Index, Table

from sloppyjobs.storage.schema.style import TableStyle


def partial_index(
    table: Table,
    style: TableStyle,
    name: str,
    columns: tuple[str, ...],
    where: str,
    *,
    unique: bool = False,
    distinct: bool = False,
) -> None:
    """Add an index to the table; see ``TableStyle.partial_index``."""
    form = style.partial_index(columns, where, distinct=distinct)
    if form is None:
        return
    parts = []
    for column in form.columns:
        plain = column.removesuffix(" DESC")
        parts.append(table.c[plain] if plain == column else table.c[plain].desc())
    Index(name, *parts, unique=unique, **form.options)
