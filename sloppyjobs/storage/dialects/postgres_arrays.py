"""Texts as a binary array, made at once; the driver's own way takes several times as long."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from struct import Struct
from typing import Any

TEXT_ARRAY = 1009
"""The number by which PostgreSQL knows the type ``text[]``."""

_TEXT = 25
_HEADER = Struct(">iiiii").pack
_LENGTH = Struct(">i").pack


class TextArray(bytes):
    """A ``text[]`` as PostgreSQL reads it in binary."""


def text_array(texts: Iterable[str], encoding: str) -> TextArray:
    """The texts, in the encoding of the connection."""
    encoded = [text.encode(encoding) for text in texts]
    dimensions, has_nulls, first_index = 1, 0, 1
    header = _HEADER(dimensions, has_nulls, _TEXT, len(encoded), first_index)
    return TextArray(header + b"".join([_LENGTH(len(text)) + text for text in encoded]))


def taking_arrays(cursor: Any) -> Any:
    """The cursor, which takes a ``TextArray`` for a parameter from now on."""
    cursor.adapters.register_dumper(TextArray, _dumper())
    return cursor


@cache
def _dumper() -> type:
    # Not at the top: without the driver, whoever asks for PostgreSQL is told what to install.
    from psycopg.adapt import Dumper  # noqa: PLC0415
    from psycopg.pq import Format  # noqa: PLC0415

    class TextArrayDumper(Dumper):
        format = Format.BINARY
        oid = TEXT_ARRAY

        def dump(self, obj: TextArray) -> TextArray:
            return obj

    return TextArrayDumper
