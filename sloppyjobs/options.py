"""Checks of what callers pass in, before anything is written. Each refusal names the option, the value and what works.

Pure: no I/O, no clock.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from sloppyjobs.errors import InvalidOption

NAME_LENGTH = 128
KEY_LENGTH = 255
LONGEST = 100 * 366 * 86_400.0
_INT32 = 2**31 - 1


def refuse(option: str, value: object, accepted: str) -> InvalidOption:
    """The error for an option that cannot work."""
    shown = repr(value)
    if len(shown) > 120:
        shown = shown[:120] + "…"
    return InvalidOption(f"{option}={shown}: {accepted}")


def text(option: str, value: object, *, longest: int = NAME_LENGTH) -> str:
    """A name or key: something to see, not too long, and storable in every database."""
    if not isinstance(value, str):
        raise refuse(option, value, "must be text")
    if len(value) > longest:
        raise refuse(option, value, f"must have at most {longest} characters, this has {len(value)}")
    if value.isascii() and value.isprintable() and value[:1].strip():
        return value
    if all(unicodedata.category(character) in ("Zs", "Zl", "Zp", "Cf", "Cc") for character in value):
        raise refuse(option, value, "must not be empty")
    if "\0" in value:
        raise refuse(option, value, "must not contain the NUL character")
    if any(unicodedata.category(character) == "Cs" for character in value):
        raise refuse(option, value, "must not contain a lone surrogate")
    return value


def key(option: str, value: object) -> str | None:
    """An optional key of at most 255 characters."""
    return None if value is None else text(option, value, longest=KEY_LENGTH)


def seconds(option: str, value: object, *, least: float = 0.0, zero: bool = True) -> float:
    """A duration in seconds, from a number or a ``timedelta``."""
    if isinstance(value, timedelta):
        number = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = _float(value)
    else:
        raise refuse(option, value, "must be seconds (a number) or a timedelta")
    if not math.isfinite(number) or number > LONGEST:
        raise refuse(option, value, "must be finite and at most 100 years")
    if number < least or (number == 0 and not zero):
        raise refuse(option, value, f"must be {'at least' if zero else 'more than'} {least:g} seconds")
    return number


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        # A whole number too large for a float.
        return math.inf if number > 0 else -math.inf


def instant(option: str, value: object) -> datetime:
    """An aware ``datetime``, or ISO 8601 text with an offset; answered in UTC."""
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise refuse(option, value, "is not ISO 8601 text, such as 2030-01-31T09:00:00+01:00") from None
    if not isinstance(moment, datetime):
        raise refuse(option, value, "must be an aware datetime or ISO 8601 text with an offset")
    if moment.utcoffset() is None:
        raise refuse(option, value, "has no time zone; use for instance datetime.now(timezone.utc)")
    # What a driver shows in the session's zone must still be a date that Python and every database have.
    if not 1000 <= moment.year <= 9998:
        raise refuse(option, value, "must lie in the years 1000 to 9998")
    return moment.astimezone(UTC)


def whole(option: str, value: object, *, least: int = -_INT32, most: int = _INT32) -> int:
    """A whole number in a range."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse(option, value, "must be a whole number")
    if not least <= value <= most:
        raise refuse(option, value, f"must be from {least:,} to {most:,}")
    return value


def names(option: str, value: object) -> tuple[str, ...]:
    """One or more names; a single text is refused, because it would be taken apart into letters."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise refuse(option, value, f"must be a list of names, such as {option}=({value!r},)")
    found = tuple(text(option, item) for item in value)
    if not found:
        raise refuse(option, value, "must name at least one")
    return found


def one_of(option: str, value: Any, accepted: Iterable[Any]) -> Any:
    """A value from a fixed set."""
    choices = tuple(accepted)
    if value not in choices:
        raise refuse(option, value, "must be one of " + ", ".join(map(repr, choices)))
    return value
