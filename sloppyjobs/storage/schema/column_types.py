"""The types of columns, the same in every table; each database has its own form of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy.types import TypeEngine

from sloppyjobs.storage.dialects import column_types
from sloppyjobs.storage.schema.style import COMMON_TYPES, ColumnTypes

NAME_LENGTH = 128
KEY_LENGTH = 255


def _by_database(make: Callable[[ColumnTypes], TypeEngine[Any]]) -> TypeEngine[Any]:
    made = make(COMMON_TYPES)
    for name, types in column_types().items():
        made = made.with_variant(make(types), name)
    return made


ByteText = _by_database(lambda types: types.text(NAME_LENGTH))
KeyText = _by_database(lambda types: types.text(KEY_LENGTH))
Word = _by_database(lambda types: types.text(32))
ErrorCode = _by_database(lambda types: types.short_text(64))
LongText = _by_database(lambda types: types.long_text())
Number = _by_database(lambda types: types.number())
RowNumber = _by_database(lambda types: types.row_number())
