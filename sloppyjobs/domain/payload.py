"""Payloads and results: what may become JSON, and how it is checked before anything is written.

The codec alone is not enough: it writes NaN as null, integer keys as text and NUL as an escape,
silently, and one database or another refuses each of them later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain
from typing import Any, NoReturn, cast

import msgspec

from sloppyjobs.domain import options
from sloppyjobs.errors import InvalidPayload

DEFAULT_LIMIT = 1_048_576
"""Bytes of encoded JSON that a payload may have unless configured otherwise."""
MAX_DEPTH = 100
"""Levels of lists and objects inside each other."""

_LEAST, _MOST = -(2**63), 2**63 - 1
_TEXT = frozenset({str})
_PLAIN = frozenset({str, int, bool, type(None)})
_NUL = rb"\u0000"
_WIDEST = 4
"""Bytes that a character may take."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}")
_AT = re.compile(r"(.*) - at `(?:key in )?\$?(.*)`", re.DOTALL)
_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines
_decode = msgspec.json.Decoder().decode


def version_of(stored: int | None) -> int:
    """The version that a row says; one that says nothing was written as the first."""
    return 1 if stored is None else stored


def stored_version(version: int) -> int | None:
    """The version as rows have it: the first is not written down."""
    return None if version == 1 else version


class _Refused(Exception):
    """Why a value is refused; every level that it passes on its way up adds its key to the path."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.path: list[object] = []


class _RebuildState:
    """How many more values may be copied, and whether datetimes may lack a time zone."""

    def __init__(self, budget: int, *, naive_datetimes: bool) -> None:
        self.budget = budget
        self.naive_datetimes = naive_datetimes


class _NotPlain(Exception):
    """There is something inside that is not a JSON builtin and may be convertible."""


def encode(value: object, limit: int = DEFAULT_LIMIT, *, what: str = "payload") -> str:
    """JSON text of the value. ``InvalidPayload`` names the place and the reason where it cannot be JSON.

    Dataclasses, Structs, enums, dates, UUIDs and Decimals are written as msgspec writes them, pydantic models
    as their ``model_dump(mode="json")``. A datetime without a time zone is refused, except in a result: the worker may
    be in another zone. ``limit`` is in bytes.
    """
    data = _simple(value, limit) if type(value) is dict else None
    if data is None:
        data = _encode(_plain(value, limit, what))
    if len(data) > limit:
        size = f"too large: {len(data)} bytes, the limit is {limit}"
        raise InvalidPayload(f"{what} is {size}", field=what, reason=size)
    return data.decode()


def encode_flat(values: Sequence[object], limit: int = DEFAULT_LIMIT) -> list[str] | None:
    """As ``encode`` of each, but all at once, for flat objects of plain values; None where that is not enough.

    A loop over thousands of payloads takes longer than the codec, so each check here is one pass over all of them.
    """
    if set(map(type, values)) != {dict}:
        return None
    objects = cast("Sequence[dict[Any, Any]]", values)
    items = list(chain.from_iterable(map(dict.values, objects)))
    if not (_PLAIN.issuperset(map(type, items)) and _TEXT.issuperset(map(type, chain.from_iterable(objects)))):
        return None
    numbers = [item for item in items if type(item) is int]
    if numbers and not _LEAST <= min(numbers) <= max(numbers) <= _MOST:
        return None
    if max((len(item) for item in items if type(item) is str), default=0) > limit:
        return None
    try:
        data = _encode_lines(objects)
    except UnicodeEncodeError:
        return None
    # A line break inside of a text is escaped; after each value there is one.
    texts = data.decode().split("\n")[:-1]
    return None if _NUL in data or max(map(len, texts)) * _WIDEST > limit else texts


def decode(text: str) -> Any:
    """The value of JSON text. ``InvalidPayload`` when it is none."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise InvalidPayload(f"the stored text is not JSON: {exc}") from exc


def convert(value: object, schema: Any, *, what: str = "payload") -> Any:
    """The decoded value as the schema's type; unchanged when the schema is None.

    Strict: text is never taken for a number. ``InvalidPayload`` names the place and what was expected there,
    ``InvalidOption`` a schema that cannot be used.
    """
    if schema is None:
        return value
    if hasattr(schema, "model_validate"):
        return _convert_model(value, schema, what)
    try:
        return msgspec.convert(value, schema, strict=True, str_keys=True)
    except msgspec.ValidationError as exc:
        found = _AT.fullmatch(str(exc))
        path, reason = (found[2], found[1]) if found else ("", str(exc))
        raise _invalid(f"{what}{path}", reason) from exc
    except RecursionError as exc:
        raise _invalid(what, "nested too deeply for its schema") from exc
    except TypeError as exc:
        # It repeats the schema, whatever that is.
        raise options.refuse("input", schema, f"is not accepted: {str(exc)[: options.SHOWN_LENGTH]}") from exc


def checked_schema(schema: Any) -> Any:
    """The schema, or ``InvalidOption`` where it is no type; one with names that are not defined yet is not known."""
    if not hasattr(schema, "model_validate"):
        with suppress(InvalidPayload, NameError):
            convert(None, schema)
    return schema


def validate_input(value: object, schema: Any, *, limit: int = DEFAULT_LIMIT, what: str = "payload") -> object:
    """The builtins to encode for a value that is an instance of the schema or fits it.

    Defaults are left out, so that the worker's version of the schema fills them in. Raises like ``encode``
    and ``convert``.
    """
    if schema is None:
        return value
    plain = _plain(value, limit, what)
    try:
        convert(plain, schema, what=what)
    except InvalidPayload:
        # A model with aliases may read only what it writes under them.
        if not (hasattr(value, "model_dump") and hasattr(schema, "model_validate")):
            raise
        plain = _plain(value.model_dump(mode="json", by_alias=True), limit, what)
        convert(plain, schema, what=what)
    return plain


def clean_text(text: object, limit: int) -> str:
    """The text of anything, fit for every database: no NUL, no lone surrogate, at most ``limit`` characters.

    Never raises, even when the object's ``__str__`` does, and be it ``SystemExit``. A truncation is marked, with the
    full length.
    """
    try:
        # A subclass of str could bring methods of its own into what follows.
        clean = str.__str__(str(text))
    except BaseException:
        clean = f"<{class_name(type(text))} whose text cannot be shown>"
    clean = clean.replace("\x00", "")
    if not clean.isascii():
        clean = _SURROGATE.sub("\ufffd", clean)
    if len(clean) <= limit:
        return clean
    marker = f"… (cut, {len(clean)} characters in all)"
    return clean[: limit - len(marker)] + marker if len(marker) < limit else clean[: max(limit, 0)]


def class_name(kind: type) -> str:
    """The name of a class, whatever its metaclass makes of the attribute."""
    return cast(str, type.__dict__["__name__"].__get__(kind))


def _simple(items: dict[Any, Any], limit: int) -> bytes | None:
    """The JSON of a flat object of plain values, as most payloads are; None where there is more to check."""
    for key, item in items.items():
        kind = type(item)
        if type(key) is not str:
            return None
        if kind is int:
            if not _LEAST <= item <= _MOST:
                return None
        elif kind is str:
            if len(item) > limit:
                return None
        elif kind is not bool and item is not None:
            return None
    try:
        data = _encode(items)
    except UnicodeEncodeError:
        return None
    return None if _NUL in data else data


def _plain(value: object, limit: int, what: str) -> object:
    """The value itself when it is JSON builtins already, otherwise an equivalent of builtins."""
    try:
        try:
            _measure(value, limit, MAX_DEPTH)
        except _NotPlain:
            value = _rebuild(value, MAX_DEPTH, _RebuildState(limit, naive_datetimes=what == "result"))
            _measure(value, limit, MAX_DEPTH)
    except _Refused as refused:
        raise _invalid(_path(what, refused.path), refused.reason) from None
    return value


def _measure(value: object, limit: int, depth: int) -> int:
    """At least how many bytes the value takes. Stops as soon as this passes the limit.

    A container counts its brackets as one, because the comma of its last item is counted too. The bound keeps
    shared containers, that unfold to more than memory holds, from being traversed to the end.
    """
    kind = type(value)
    if kind is str:
        return _measure_text(cast(str, value), limit)
    if kind is int:
        if not _LEAST <= cast(int, value) <= _MOST:
            raise _Refused("an integer outside the signed 64-bit range")
        return 1
    if kind is dict:
        return _measure_dict(cast("dict[object, object]", value), limit, depth)
    if kind is list or kind is tuple:
        return _measure_list(cast("list[object]", value), limit, depth)
    if kind is float:
        # A number less itself is zero, unless it is NaN or infinite.
        if cast(float, value) - cast(float, value) != 0:
            raise _Refused("NaN or infinity, which JSON does not have")
        return 3
    if value is None or kind is bool:
        return 4
    raise _NotPlain


def _measure_text(text: str, limit: int) -> int:
    if len(text) > limit:
        _too_large(len(text) + 2, limit)
    if "\x00" in text:
        raise _Refused("a NUL character")
    if not text.isascii() and _SURROGATE.search(text):
        raise _Refused("a lone surrogate, which is not text")
    return len(text) + 2


def _measure_dict(items: dict[object, object], limit: int, depth: int) -> int:
    if not depth:
        _too_deep()
    size = 1
    key: object = None
    try:
        for key, item in items.items():
            if type(key) is not str:
                raise (_NotPlain if isinstance(key, str) else _Refused(f"a key of type {type(key).__name__}, not text"))
            size += _measure_text(key, limit) + _measure(item, limit, depth - 1) + 2
            if size > limit:
                _too_large(size, limit)
    except _Refused as refused:
        refused.path.append(key)
        raise
    return size


def _measure_list(items: list[object], limit: int, depth: int) -> int:
    if not depth:
        _too_deep()
    size = 1
    index = 0
    try:
        for item in items:
            size += _measure(item, limit, depth - 1) + 1
            if size > limit:
                _too_large(size, limit)
            index += 1
    except _Refused as refused:
        refused.path.append(index)
        raise
    return size


def _rebuild(value: object, depth: int, state: _RebuildState) -> object:
    """A copy in which objects are replaced by the builtins that stand for them."""
    state.budget -= 1
    if state.budget < 0:
        raise _Refused("too large: it has more values than its limit has bytes")
    if value is None or type(value) in (str, int, float, bool):
        return value
    if not isinstance(value, dict | list | tuple):
        return _builtin(value, depth, state)
    if not depth:
        _too_deep()
    key: object = None
    try:
        if isinstance(value, dict):
            copy: dict[object, object] = {}
            for key, item in value.items():
                copy[str.__str__(key) if isinstance(key, str) else key] = _rebuild(item, depth - 1, state)
            return copy
        items: list[object] = []
        for item in value:
            key = len(items)
            items.append(_rebuild(item, depth - 1, state))
        return items
    except _Refused as refused:
        refused.path.append(key)
        raise


def _builtin(value: object, depth: int, state: _RebuildState) -> object:
    # Inside a typed object msgspec writes these by the object's type, and reads them back; here it could not.
    if isinstance(value, set | frozenset | bytes | bytearray | memoryview):
        _not_json(value)
    if isinstance(value, datetime) and value.utcoffset() is None and not state.naive_datetimes:
        raise _Refused("a datetime without a time zone; use for instance datetime.now(timezone.utc)")
    try:
        if isinstance(value, datetime):
            return msgspec.to_builtins(value)
        # Datetimes inside of objects are left as they are, to be looked at like any other.
        builtin = msgspec.to_builtins(value, builtin_types=(datetime,), enc_hook=_other)
    except RecursionError:
        _too_deep()
    except (TypeError, ValueError, AttributeError):
        _not_json(value)
    return _rebuild(builtin, depth, state)


def _other(value: object) -> object:
    """What msgspec does not know: subclasses of scalars, and pydantic models."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    dump = getattr(value, "model_dump", None)
    if dump is None or isinstance(value, type):
        _not_json(value)
    return dump(mode="json")


def _convert_model(value: object, schema: Any, what: str) -> Any:
    try:
        # Strict validation of Python values would refuse a date's text; of JSON it knows that dates are text.
        if hasattr(schema, "model_validate_json"):
            return schema.model_validate_json(_encode(value), strict=True)
        return schema.model_validate(value)
    except ValueError as exc:
        # The error's own text shows the value that was refused; its parts do not.
        details = getattr(exc, "errors", None)
        first = (details() if callable(details) else None) or [{"loc": (), "msg": str(exc)}]
        raise _invalid(_path(what, list(reversed(first[0]["loc"]))), str(first[0]["msg"])) from exc


def _invalid(field: str, reason: str) -> InvalidPayload:
    return InvalidPayload(f"{field}: {reason}", field=field, reason=reason)


def _path(what: str, reversed_keys: list[object]) -> str:
    path = what
    for key in reversed(reversed_keys):
        if isinstance(key, int):
            path += f"[{key}]"
        elif isinstance(key, str) and _NAME.fullmatch(key):
            path += f".{key}"
        else:
            path += f"[{clean_text(ascii(key), 60)}]"
    return path


def _too_large(size: int, limit: int) -> NoReturn:
    raise _Refused(f"too large: at least {size} bytes, the limit is {limit}")


def _too_deep() -> NoReturn:
    raise _Refused(f"nested deeper than {MAX_DEPTH} levels, or inside itself")


def _not_json(value: object) -> NoReturn:
    raise _Refused(f"a value of type {type(value).__name__}, which is not JSON")
