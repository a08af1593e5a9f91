"""JSON merge patch (RFC 7396): what it makes of a value, and which keys it changed. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MOST_KEYS = 50
"""Keys that are named; of more, how many there are."""


def merged(value: Any, patch: Any) -> Any:
    """The value after the patch. Objects are merged key by key; null removes a key; anything else takes its place.

    Neither argument is changed.
    """
    if not isinstance(patch, Mapping):
        return patch
    result = dict(value) if isinstance(value, Mapping) else {}
    for key, part in patch.items():
        if part is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), part)
    return result


def changed_keys(before: Any, after: Any) -> list[str]:
    """The places that differ, as JSON pointers, without any value; the last one counts those beyond a bound."""
    found = list(_changes(before, after, ""))
    if len(found) <= MOST_KEYS:
        return found
    return [*found[:MOST_KEYS], f"and {len(found) - MOST_KEYS} more"]


def _changes(before: Any, after: Any, place: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*before, *after)):
            below = f"{place}/{str(key).replace('~', '~0').replace('/', '~1')}"
            if key in before and key in after:
                yield from _changes(before[key], after[key], below)
            else:
                yield below
    elif not _same(before, after):
        yield place or "/"


def _same(before: Any, after: Any) -> bool:
    """Whether both are written alike: ``1``, ``1.0`` and ``true`` are equal in Python."""
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_same, before, after))
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return list(before) == list(after) and all(_same(before[key], after[key]) for key in before)
    return type(before) is type(after) and bool(before == after)
