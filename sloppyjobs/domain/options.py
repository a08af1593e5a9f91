"""Checks of what callers pass in, before anything is written. Each refusal names the option, the value and what works.

Pure: no I/O, no clock.
"""

from __future__ import annotations

import inspect
import math
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from sloppyjobs.errors import InvalidOption

NAME_LENGTH = 128
KEY_LENGTH = 255
SHOWN_LENGTH = 120
LONGEST = 100 * 366 * 86_400.0
_INT32 = 2**31 - 1

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def refuse(option: str, value: object, accepted: str) -> InvalidOption:
    """The error for an option that cannot work."""
    return InvalidOption(f"{option}={shown(value)}: {accepted}", field=option, reason=accepted)


def shown(value: object) -> str:
    """The value as it stands in a message: bounded, whatever it is."""
    try:
        text = repr(value)
    except Exception:
        return f"<{type(value).__name__}>"
    return text if len(text) <= SHOWN_LENGTH else text[:SHOWN_LENGTH] + "…"


def unknown(given: str, known: Iterable[str], where: str) -> InvalidOption:
    """The error for an option that does not exist; it names the nearest one that does."""
    from difflib import get_close_matches  # noqa: PLC0415 - only needed to explain a mistake

    accepted = sorted(known)
    nearest = get_close_matches(given, accepted, n=1, cutoff=0.6)
    meant = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return InvalidOption(
        f"{where} has no option {given!r}.{meant} Its options are {', '.join(accepted)}",
        field=given,
        reason=f"is no option of {where}.{meant}",
    )


def known_only(where: str, *, besides: Collection[str] = ("self",)) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: keyword arguments that the function does not take raise ``InvalidOption`` instead of ``TypeError``.

    ``where`` is what the caller called; the message does not offer the parameters ``besides``.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        accepted = frozenset(inspect.signature(function).parameters)

        @wraps(function)
        def checked(*arguments: P.args, **named: P.kwargs) -> R:
            if not accepted.issuperset(named):
                raise unknown(min(set(named) - accepted), accepted.difference(besides), where)
            return function(*arguments, **named)

        return checked

    return decorate


def text(option: str, value: object, *, longest: int = NAME_LENGTH) -> str:
    """A name or key: something to see, not too long, and storable in every database."""
    if not isinstance(value, str):
        raise refuse(option, value, "must be text")
    if type(value) is not str:
        # Codecs and drivers refuse subclasses, or write something else of them than their text.
        value = str.__str__(value)
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


def are_plain_keys(values: Sequence[object]) -> bool:
    """Whether ``key`` would accept each of these unchanged; checked for all of them at once."""
    if not values or set(map(type, values)) != {str}:
        return False
    texts = cast("Sequence[str]", values)
    joined = "".join(texts)
    if not (joined.isascii() and joined.isprintable()) or max(map(len, texts)) > KEY_LENGTH:
        return False
    return not any(text[:1] in ("", " ") for text in texts)


def queue(option: str, value: object) -> str:
    """The name of one queue; ``*`` is refused, because to a worker it means all of them."""
    if value == "*":
        raise refuse(option, value, "must be the name of one queue; '*' means every queue, for workers only")
    return text(option, value)


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
        unit = "second" if least == 1 else "seconds"
        raise refuse(option, value, f"must be {'at least' if zero else 'more than'} {least:g} {unit}")
    return number


def percent(option: str, value: object) -> float:
    """A number from 0 to 100."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse(option, value, "must be a number from 0 to 100")
    number = _float(value)
    if not 0 <= number <= 100:
        raise refuse(option, value, "must be from 0 to 100")
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
    # In any session's zone it must still be a date that Python and every database can represent.
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
    """One or more names; a single text is refused, because it would be split into letters."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise refuse(option, value, f"must be a list of names, such as {option}=({shown(value)},)")
    found = tuple(text(option, item) for item in value)
    if not found:
        raise refuse(option, value, "must name at least one")
    return found


def listed(option: str, value: Iterable[T]) -> list[T]:
    """What can be gone through, as a list; a text is none."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise refuse(option, value, "must be a list, or something else to go through")
    return list(value)


def truth(option: str, value: object) -> bool:
    """True or False; a text is neither, also where it says "false"."""
    if not isinstance(value, bool):
        raise refuse(option, value, "must be True or False")
    return value


def mapping(option: str, value: object) -> Mapping[str, Any]:
    """A mapping."""
    if not isinstance(value, Mapping):
        raise refuse(option, value, "must be a mapping")
    return value


def function(option: str, value: F) -> F:
    """Something to call."""
    if not callable(value):
        raise refuse(option, value, "must be a function")
    return value


def one_of(option: str, value: Any, accepted: Iterable[Any]) -> Any:
    """The one of a fixed set that equals the value."""
    choices = tuple(accepted)
    if value not in choices:
        raise refuse(option, value, "must be one of " + ", ".join(map(repr, choices)))
    return choices[choices.index(value)]
