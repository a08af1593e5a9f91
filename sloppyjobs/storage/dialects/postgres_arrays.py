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
_NULL = _LENGTH(-1)


class TextArray(bytes):
    """A ``text[]`` as PostgreSQL reads it in binary."""


class Texts(tuple[str | None, ...]):
    """Texts that become a ``text[]`` on the connection that sends them."""

    __slots__ = ()


def text_array(texts: Iterable[str | None], encoding: str) -> TextArray:
    """The texts, in the encoding of the connection."""
    fields = []
    for text in texts:
        if text is None:
            fields.append(_NULL)
        else:
            encoded = text.encode(encoding)
            fields.append(_LENGTH(len(encoded)) + encoded)
    dimensions, has_nulls, first_index = 1, int(_NULL in fields), 1
    return TextArray(_HEADER(dimensions, has_nulls, _TEXT, len(fields), first_index) + b"".join(fields))


def taking_arrays(cursor: Any) -> Any:
    """The cursor, which takes a ``TextArray`` or ``Texts`` for a parameter from now on."""
    of_bytes, of_texts = _dumpers()
    cursor.adapters.register_dumper(TextArray, of_bytes)
    cursor.adapters.register_dumper(Texts, of_texts)
    return cursor


@cache
def _dumpers() -> tuple[type, type]:
    # Not at the top: without the driver, whoever asks for PostgreSQL is told what to install.
    from psycopg.adapt import Dumper  # noqa: PLC0415
    from psycopg.pq import Format  # noqa: PLC0415

    class TextArrayDumper(Dumper):
        format = Format.BINARY
        oid = TEXT_ARRAY

        def dump(self, obj: TextArray) -> TextArray:
            return obj

    class TextsDumper(Dumper):
        format = Format.BINARY
        oid = TEXT_ARRAY

        def dump(self, obj: Texts) -> TextArray:
            assert self.connection is not None
            return text_array(obj, self.connection.info.encoding)

    return TextArrayDumper, TextsDumper
