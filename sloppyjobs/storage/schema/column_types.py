"""What columns are made of, the same in every table."""

from __future__ import annotations

from sqlalchemy import BigInteger, Index, Integer, String, text

NAME_LENGTH = 128
KEY_LENGTH = 255

# Ids and names sort byte by byte on every database, so that a cursor means the same everywhere.
ByteText = String(NAME_LENGTH).with_variant(String(NAME_LENGTH, collation="C"), "postgresql")
KeyText = String(KEY_LENGTH).with_variant(String(KEY_LENGTH, collation="C"), "postgresql")
Word = String(32).with_variant(String(32, collation="C"), "postgresql")
# SQLite numbers rows by itself only for a column of exactly this type.
RowNumber = BigInteger().with_variant(Integer(), "sqlite")


# PostgreSQL looks for equal keys whenever a page of an index is full; where no two are, it looks in vain.
ALL_DIFFERENT = {"deduplicate_items": "off"}


def partial(name: str, *columns: object, where: str, all_different: bool = False) -> Index:
    """An index over some of the rows, on every database that has such."""
    condition = text(where)
    return Index(
        name,
        *columns,  # type: ignore[arg-type]
        postgresql_where=condition,
        sqlite_where=condition,
        postgresql_with=ALL_DIFFERENT if all_different else {},
    )
