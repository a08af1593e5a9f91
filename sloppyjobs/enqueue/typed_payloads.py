"""Typed payloads, many at once: written and checked by the codec alone, where that says the same as one by one.

Pure: no I/O, no clock.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from sloppyjobs.domain import payload

DEEPEST = 8
"""Levels of objects inside of each other that a schema may have here."""

_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_NUL = rb"\u0000"
_WIDEST = 4
"""Bytes that a character may take."""
_encode_lines = msgspec.json.Encoder().encode_lines


def encode_typed(values: Sequence[Any], schema: Any, limit: int = payload.DEFAULT_LIMIT) -> list[str] | None:
    """As ``encode`` of ``validate_input`` of each; None where something is refused, or more must be looked at.

    Instances are read back, and must be equal to what was written: so nothing was lost on the way.
    """
    decoder = _decoder(schema) if isinstance(schema, type) else None
    kinds = set(map(type, values))
    if decoder is None:
        return None
    if kinds == {schema}:
        data = _written(values)
        texts = None if data is None else data.decode().split("\n")[:-1]
    elif kinds == {dict}:
        texts = payload.encode_flat(values, limit)
        data = None if texts is None else "\n".join(texts).encode()
    else:
        return None
    if data is None or texts is None or max(map(len, texts)) * _WIDEST > limit:
        return None
    try:
        found = decoder.decode_lines(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return texts if kinds == {dict} or found == list(values) else None


def _written(values: Sequence[Any]) -> bytes | None:
    try:
        data = _encode_lines(values)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return None
    # A number of so many digits may be outside of what databases and other readers of JSON have.
    return None if _NUL in data or _LONG_NUMBER.search(data) else data


@lru_cache(maxsize=256)
def _decoder(schema: type) -> msgspec.json.Decoder[Any] | None:
    """The decoder of a schema all of whose values the codec writes as we do; None for any other."""
    if hasattr(schema, "model_validate"):
        return None
    from msgspec import inspect  # noqa: PLC0415 - only where payloads are typed

    try:
        known = _is_known(inspect.type_info(schema), DEEPEST)
    except (TypeError, NameError):
        return None
    return msgspec.json.Decoder(schema) if known else None


def _is_known(kind: Any, depth: int) -> bool:
    """Whether it is made of text, numbers, and lists and objects of such.

    Instants are not: one without a time zone is refused. Nor is anything that may hold whatever it likes.
    """
    from msgspec import inspect  # noqa: PLC0415

    plain = (inspect.NoneType, inspect.BoolType, inspect.IntType, inspect.FloatType, inspect.StrType)
    if isinstance(kind, (*plain, inspect.LiteralType, inspect.UUIDType, inspect.DateType)):
        return True
    if depth == 0:
        return False
    match kind:
        case inspect.Metadata():
            return _is_known(kind.type, depth)
        case inspect.UnionType():
            return all(_is_known(one, depth) for one in kind.types)
        case inspect.ListType():
            return _is_known(kind.item_type, depth - 1)
        case inspect.DictType():
            return isinstance(kind.key_type, inspect.StrType) and _is_known(kind.value_type, depth - 1)
        case inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType():
            return all(_is_known(field.type, depth - 1) for field in kind.fields)
    return False
