"""Lists as binary arrays, made at once; the driver's own way takes several times as long."""

from __future__ import annotations

import sys
from array import array as packed
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count, islice
from struct import Struct
from typing import Any

from sloppyjobs.storage.schema.columns import Kind

_HEADER = Struct(">iiiii").pack
_LENGTH = Struct(">i").pack
_WHOLE = Struct(">ii").pack
_NUMBER = Struct(">id").pack
_INSTANT = Struct(">iq").pack
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

NULL = _LENGTH(-1)
"""An element without a value."""


class Array(bytes):
    """An array as PostgreSQL reads it in binary. The numbers are those by which PostgreSQL knows the types."""

    array_type: int
    element_type: int
    sql: str


class TextArray(Array):
    """A ``text[]``."""

    array_type, element_type, sql = 1009, 25, "text[]"


class WholeArray(Array):
    """An ``int4[]``."""

    array_type, element_type, sql = 1007, 23, "int4[]"


class NumberArray(Array):
    """A ``float8[]``."""

    array_type, element_type, sql = 1022, 701, "float8[]"


class InstantArray(Array):
    """A ``timestamptz[]``."""

    array_type, element_type, sql = 1185, 1184, "timestamptz[]"


_ARRAYS: dict[Kind, type[Array]] = {
    Kind.WHOLE: WholeArray,
    Kind.NUMBER: NumberArray,
    Kind.INSTANT: InstantArray,
}


def array_of(kind: Kind) -> type[Array]:
    """The array for the values of a column."""
    return _ARRAYS.get(kind, TextArray)


def array(kind: Kind, values: Sequence[Any], encoding: str) -> Array:
    """The values of a column, in the encoding of the connection."""
    made, has_nulls = array_of(kind), None in values
    if made is InstantArray and not has_nulls:
        return moment_array(list(map(microseconds, values)))
    whole = made is TextArray and not has_nulls
    elements = _text_elements(values, encoding) if whole else b"".join(_elements(kind, values, encoding))
    return _made(made, len(values), elements, has_nulls=has_nulls)


def _made(made: type[Array], number: int, elements: bytes, *, has_nulls: bool = False) -> Array:
    dimensions, first_index = 1, 1
    return made(_HEADER(dimensions, int(has_nulls), made.element_type, number, first_index) + elements)


def _text_elements(texts: Sequence[str], encoding: str) -> bytes:
    """Each text with its length before it, joined as texts in which a character stands for a byte."""
    texts = _bytewise(texts, encoding)
    own = list(map(len, texts))
    before = {length: _LENGTH(length).decode("latin-1") for length in set(own)}
    if len(before) == 1:
        # As ids have.
        [one] = before.values()
        return (one + one.join(texts)).encode("latin-1")
    parts = [""] * (2 * len(own))
    parts[::2] = map(before.__getitem__, own)
    parts[1::2] = texts
    return "".join(parts).encode("latin-1")


def _bytewise(texts: Sequence[str], encoding: str) -> Sequence[str]:
    """The texts with a character for each of their bytes, as ASCII is in every encoding; all at once, if possible."""
    if all(map(str.isascii, texts)):
        return texts
    found = "\n".join(texts).encode(encoding).decode("latin-1").split("\n")
    return found if len(found) == len(texts) else [text.encode(encoding).decode("latin-1") for text in texts]


def instant_array(first: datetime, step: timedelta, number: int) -> Array:
    """So many instants, each a step after the one before."""
    return moment_array(list(moments(first, step, number)))


def moment_array(instants: Sequence[int]) -> Array:
    """Instants that are already as PostgreSQL keeps them."""
    numbers = packed("q", instants)
    if sys.byteorder == "little":
        numbers.byteswap()
    halves = packed("i", numbers.tobytes())
    elements = packed("i", _INSTANT(8, 0)) * len(instants)
    elements[1::3], elements[2::3] = halves[::2], halves[1::2]
    return _made(InstantArray, len(instants), elements.tobytes())


def moments(first: datetime, step: timedelta, number: int) -> Iterator[int]:
    """The same as PostgreSQL keeps them."""
    return islice(count(microseconds(first), step // _MICROSECOND), number)


def text_array(texts: Iterable[str | None], encoding: str) -> Array:
    """The texts, in the encoding of the connection."""
    return array(Kind.TEXT, texts if isinstance(texts, list) else list(texts), encoding)


def _elements(kind: Kind, values: Sequence[Any], encoding: str) -> list[bytes]:
    """Each value with its length before it."""
    write = _writer(kind, encoding)
    if values and values[0] == values[-1] and values.count(values[0]) == len(values):
        # As codes and classes of errors mostly are.
        return [NULL if values[0] is None else write(values[0])] * len(values)
    if None not in values:
        return [write(value) for value in values]
    return [NULL if value is None else write(value) for value in values]


def _writer(kind: Kind, encoding: str) -> Callable[[Any], bytes]:
    match kind:
        case Kind.WHOLE:
            return lambda value: _WHOLE(4, value)
        case Kind.NUMBER:
            return lambda value: _NUMBER(8, value)
        case Kind.INSTANT:
            return lambda value: _INSTANT(8, microseconds(value))

    def text(value: str) -> bytes:
        data = value.encode(encoding)
        return _LENGTH(len(data)) + data

    return text


def microseconds(instant: datetime) -> int:
    """The instant as PostgreSQL keeps it."""
    since = instant - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


class Texts(tuple[str | None, ...]):
    """Texts that become a ``text[]`` on the connection that sends them."""

    __slots__ = ()


def taking_arrays(cursor: Any) -> Any:
    """The cursor, which takes an ``Array`` or ``Texts`` for a parameter from now on."""
    for kind, dumper in _dumpers().items():
        cursor.adapters.register_dumper(kind, dumper)
    return cursor


@cache
def _dumpers() -> dict[type, type]:
    # Not at the top: without the driver, whoever asks for PostgreSQL is told what to install.
    from psycopg.adapt import Dumper  # noqa: PLC0415
    from psycopg.pq import Format  # noqa: PLC0415

    class ArrayDumper(Dumper):
        format = Format.BINARY

        def dump(self, obj: Array) -> Array:
            return obj

    class TextsDumper(Dumper):
        format = Format.BINARY
        oid = TextArray.array_type

        def dump(self, obj: Texts) -> Array:
            assert self.connection is not None
            return text_array(obj, self.connection.info.encoding)

    return {Texts: TextsDumper} | {
        kind: type(f"{kind.__name__}Dumper", (ArrayDumper,), {"oid": kind.array_type})
        for kind in (TextArray, WholeArray, NumberArray, InstantArray)
    }
