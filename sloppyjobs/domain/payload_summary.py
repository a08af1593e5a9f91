"""The first fields of a payload in one line, for a row of a list.

Pure: no I/O, no clock. A list reads no more than the start of a payload. Of a longer one, only
members that are complete are shown: of a truncated value it is unknown whether it is secret.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sloppyjobs.domain.payload import clean_text
from sloppyjobs.domain.redaction.redactor import REDACTED, UNAVAILABLE, Preview, Redactor

START = 2_048
"""Characters of a payload that are read."""
FIELDS = 3
LENGTH = 120
"""Characters of the line."""
_VALUE = 48
_KEY = 40
# More than is shown of a value, so that the marks of a truncation inside it are not shown either.
_VALUE_LIMIT = 200
_MORE = "…"

_NOTHING = Preview(value=None, text=UNAVAILABLE, redacted=0, truncated=False, available=False)
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


def summary(redactor: Redactor, start: str) -> Preview:
    """The first fields of the payload that starts so, redacted; ``start`` has more than ``START`` characters of one
    that goes on."""
    if len(start) > START:
        return _of_start(redactor, start[:START])
    try:
        value = msgspec.json.decode(start)
    except _UNREADABLE:
        return _NOTHING
    if isinstance(value, dict):
        return _of_object(redactor, value)
    if isinstance(value, list):
        return _of_list(redactor, value)
    shown = redactor.bounded(value, limit=_VALUE_LIMIT)
    return _preview(_shortened(shown), _written(shown))


def _of_start(redactor: Redactor, start: str) -> Preview:
    text = start.lstrip()
    if not text.startswith("{"):
        shown = "[…]" if text.startswith("[") else _MORE
        return Preview(value=None, text=shown, redacted=0, truncated=True, available=True)
    return _of_object(redactor, dict(_complete_members(text)), whole=False)


def _of_object(redactor: Redactor, members: Mapping[str, object], *, whole: bool = True) -> Preview:
    scalars = [key for key, value in members.items() if not isinstance(value, dict | list)]
    containers = [key for key, value in members.items() if isinstance(value, dict | list)]
    parts: list[str] = []
    value: dict[str, object] = {}
    for key, field in redactor.fields(members, [*scalars, *containers][:FIELDS], limit=_VALUE_LIMIT, whole=whole):
        part = f"{_quoted(key, _KEY)}: {_written(field)}"
        if parts and len(", ".join((*parts, part))) > LENGTH - len("{, …}"):
            break
        parts.append(part)
        value[_truncate(key, _KEY)] = _shortened(field)
    more = not whole or len(parts) < len(members)
    line = "{" + ", ".join([*parts, _MORE] if more else parts) + "}"
    return _preview(value, line)


def _of_list(redactor: Redactor, items: list[Any]) -> Preview:
    # What an item is depends on the one before it and on nothing else.
    shown = redactor.bounded(items[:FIELDS], limit=_VALUE_LIMIT)
    assert isinstance(shown, list)
    parts = [_written(item) for item in shown[:FIELDS]]
    line = "[" + ", ".join([*parts, _MORE] if len(items) > FIELDS else parts) + "]"
    return _preview([_shortened(item) for item in shown], _truncate(line, LENGTH))


def _preview(value: object, line: str) -> Preview:
    return Preview(value, line, line.count(REDACTED), truncated=_MORE in line, available=True)


def _complete_members(text: str) -> Iterator[tuple[str, object]]:
    """The members at the start of an object whose end is missing, without the one that is truncated."""
    scan = json.JSONDecoder().raw_decode
    end = 0
    try:
        # A number is complete only where a comma follows it.
        while end == 0 or text[end : end + 1] == ",":
            start = _after_space(text, end + 1)
            colon = _after_space(text, scan(text, start)[1])
            begin = _after_space(text, colon + 1)
            end = _after_space(text, scan(text, begin)[1])
            if text[colon : colon + 1] != ":" or text[end : end + 1] != ",":
                return
            yield msgspec.json.decode(text[start:colon], type=str), msgspec.json.decode(text[begin:end])
    except _UNREADABLE:
        return


def _after_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _written(value: object) -> str:
    if value == REDACTED:
        return REDACTED
    if isinstance(value, dict):
        return "{…}" if value else "{}"
    if isinstance(value, list):
        return "[…]" if value else "[]"
    if isinstance(value, str):
        return _quoted(value, _VALUE)
    return _truncate(json.dumps(value), _VALUE)


def _shortened(value: object) -> object:
    if isinstance(value, dict | list):
        return _written(value)
    return _truncate(value, _VALUE) if isinstance(value, str) else value


def _quoted(text: str, most: int) -> str:
    quoted = json.dumps(_truncate(clean_text(text, len(text)), most), ensure_ascii=False)
    # Escapes make it longer.
    return quoted if len(quoted) <= most + 2 else f'{quoted[:most]}{_MORE}"'


def _truncate(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + _MORE
