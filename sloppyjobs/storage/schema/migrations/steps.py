"""The steps of migrations, under the installation's prefix and schema and in the form of its database.

Where a migration is no transaction, an earlier run may have been killed after any step: each step looks first whether
it was done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

from sloppyjobs.storage.schema.style import IndexForm, TableStyle
from sloppyjobs.storage.schema.tables import Tables


def style() -> TableStyle:
    """How this database makes tables."""
    return _tables().style


def full_name(table: str) -> str:
    """The name of a table, with the installation's prefix."""
    return f"{_tables().prefix}{table}"


def create_table(table: str, *parts: Any) -> None:
    """Create a table."""
    if _looking() and _inspector().has_table(full_name(table), schema=_tables().schema):
        return
    options: dict[str, Any] = {"schema": _tables().schema, **style().table_options}
    op.create_table(full_name(table), *parts, *style().own_columns(table), **options)


def keep_by_key(table: str, *columns: sa.Column[Any]) -> None:
    """Keep a table with these columns in the order of its primary key, where that is the database's choice.

    Its rows are copied, and its indexes are to be created again. Only where a migration is a transaction.
    """
    if not style().by_key_options:
        return
    options: dict[str, Any] = {"schema": _tables().schema, **style().table_options, **style().by_key_options}
    schema, names = _tables().schema, [column.name for column in columns]
    old, new = (sa.table(full_name(name), *map(sa.column, names), schema=schema) for name in (table, f"{table}_by_key"))
    op.create_table(new.name, *columns, **options)
    op.execute(sa.insert(new).from_select(names, sa.select(*old.c)))
    op.drop_table(old.name, schema=schema)
    op.rename_table(new.name, old.name, schema=schema)


def apply_settings(*tables: str) -> None:
    """Set what this database wants set for these tables, once they exist."""
    preparer = op.get_context().dialect.identifier_preparer
    settings = style().table_settings
    for table in tables:
        if table in settings:
            name = preparer.format_table(sa.table(full_name(table), schema=_tables().schema))
            _looking()
            op.execute(settings[table].format(table=name))


def add_column(table: str, name: str, kind: Any) -> None:
    """Add a column, which is null in the rows there are."""
    if _looking() and _has_column(table, name):
        return
    op.add_column(full_name(table), sa.Column(name, kind), schema=_tables().schema)


def printed() -> bool:
    """Whether the statements for new tables are printed: all of these are made as this version has them."""
    return op.get_context().as_sql


def add_own_columns(table: str) -> None:
    """Add the columns that this database alone needs."""
    for part in style().own_columns(table):
        if isinstance(part, sa.Column) and not (_looking() and _has_column(table, part.name)):
            op.add_column(full_name(table), part, schema=_tables().schema)


def drop_column(table: str, name: str) -> None:
    """Drop a column."""
    if _looking() and not _has_column(table, name):
        return
    op.drop_column(full_name(table), name, schema=_tables().schema)


def create_index(
    table: str, suffix: str, *columns: str, where: str | None = None, unique: bool = False, distinct: bool = False
) -> None:
    """Create an index; with ``where``, one over the rows that meet it, where the database has such indexes."""
    if _looking() and _has_index(table, _index_name(table, suffix, unique=unique)):
        return
    form = IndexForm(columns) if where is None else style().partial_index(columns, where, distinct=distinct)
    if form is None:
        return
    op.create_index(
        _index_name(table, suffix, unique=unique),
        full_name(table),
        [sa.text(column) if " " in column else column for column in form.columns],
        unique=unique,
        schema=_tables().schema,
        **form.options,
    )


def drop_index(table: str, suffix: str, *, without: str = "") -> None:
    """Drop an index; with ``without``, only one that has no such column."""
    name = _index_name(table, suffix)
    if _looking() and not _has_index(table, name, without):
        return
    op.drop_index(name, table_name=full_name(table), schema=_tables().schema)


def _tables() -> Tables:
    tables: Tables = op.get_context().opts["sloppy_tables"]
    return tables


def _looking() -> bool:
    """Whether the step must look first; ``Conflict`` where another process may be migrating by now."""
    before_step: Callable[[], None] | None = op.get_context().opts["sloppy_before_step"]
    if before_step is None:
        return False
    before_step()
    return True


def _inspector() -> sa.Inspector:
    return sa.inspect(op.get_bind())


def _has_column(table: str, name: str) -> bool:
    columns = _inspector().get_columns(full_name(table), schema=_tables().schema)
    return any(column["name"] == name for column in columns)


def _has_index(table: str, name: str, without: str = "") -> bool:
    indexes = _inspector().get_indexes(full_name(table), schema=_tables().schema)
    return any(index["name"] == name and without not in index["column_names"] for index in indexes)


def _index_name(table: str, suffix: str, *, unique: bool = False) -> str:
    return f"{'uq' if unique else 'ix'}_{full_name(table)}_{suffix}"
