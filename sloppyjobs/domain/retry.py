"""When a failed attempt is tried again: a value, and pure functions of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Literal, cast

import msgspec

from sloppyjobs.domain.options import shown
from sloppyjobs.errors import InvalidOption

Duration = int | float | timedelta
"""Seconds, or a ``timedelta``."""
Backoff = Literal["none", "fixed", "linear", "exponential"] | Callable[[int], Duration]
"""How the delay grows: a name, or a function of the attempt number that has just failed."""
Failure = type[BaseException] | str
"""An exception class, or its ``module.QualName``."""

_BACKOFFS = ("none", "fixed", "linear", "exponential")
_MOST_ATTEMPTS = 1_000_000
# The smallest float doubled this often is infinite already; larger exponents would say nothing new.
_MOST_DOUBLINGS = 2200


@dataclass(frozen=True, slots=True, eq=False)
class Retry:
    """A retry policy. Two policies are equal when they make the same decisions, so a restored one equals its original.

    Durations are seconds or ``timedelta`` and are stored as seconds. ``maximum`` caps every delay. ``jitter``
    spreads a delay over its upper half. ``InvalidOption`` names a field that cannot work.
    """

    max_attempts: int = 3
    backoff: Backoff = "exponential"
    initial: Duration = 1
    maximum: Duration = 3600
    jitter: bool = True
    retry_on: Failure | Iterable[Failure] = (Exception,)
    give_up_on: Failure | Iterable[Failure] = ()

    def __post_init__(self) -> None:
        if type(self.max_attempts) is not int or not 1 <= self.max_attempts <= _MOST_ATTEMPTS:
            _refuse("max_attempts", self.max_attempts, f"a whole number from 1 to {_MOST_ATTEMPTS}")
        if not callable(self.backoff) and self.backoff not in _BACKOFFS:
            _refuse("backoff", self.backoff, f"one of {', '.join(_BACKOFFS)}, or a callable")
        jitter: object = self.jitter
        if not isinstance(jitter, bool):
            _refuse("jitter", jitter, "True or False")
        for field in ("initial", "maximum"):
            object.__setattr__(self, field, _seconds(field, getattr(self, field)))
        for field in ("retry_on", "give_up_on"):
            object.__setattr__(self, field, _failures(field, getattr(self, field)))

    def delay(self, attempt: int, random: float) -> float:
        """Seconds to wait after attempt number ``attempt`` (from 1) has failed; ``random`` is in [0, 1).

        Never negative and never above ``maximum``. ``InvalidOption`` when a callable backoff fails or gives
        something that is no duration.
        """
        if attempt < 1:
            _refuse("attempt", attempt, "a whole number from 1")
        if not 0 <= random < 1:
            _refuse("random", random, "a number from 0 up to, not including, 1")
        delay = min(self._uncapped(attempt), cast(float, self.maximum))
        return delay * (0.5 + 0.5 * random) if self.jitter else delay

    def retries(self, exc: BaseException) -> bool:
        """Whether the policy tries again after this exception. ``give_up_on`` wins over ``retry_on``."""
        # By name, because a policy restored from JSON has no classes, and must decide like the original.
        names = _names_with_bases(type(exc))  # type: ignore[arg-type] # a class can be hashed
        return names.isdisjoint(_names(self.give_up_on)) and not names.isdisjoint(_names(self.retry_on))

    def to_json(self) -> str:
        """The policy as JSON. A callable backoff is written as ``"callable"``."""
        stored = _Stored(
            max_attempts=self.max_attempts,
            backoff="callable" if callable(self.backoff) else self.backoff,
            initial=cast(float, self.initial),
            maximum=cast(float, self.maximum),
            jitter=self.jitter,
            retry_on=_names(self.retry_on),
            give_up_on=_names(self.give_up_on),
        )
        return msgspec.json.encode(stored).decode()

    @classmethod
    def from_json(cls, text: str, backoff: Callable[[int], Duration] | None = None) -> Retry:
        """The policy that ``to_json`` wrote; exceptions are known by name.

        ``backoff`` stands in for a callable; without it such a policy backs off exponentially.
        ``InvalidOption`` for text that is no policy.
        """
        try:
            stored = msgspec.json.decode(text, type=_Stored)
        except (msgspec.DecodeError, UnicodeError) as exc:
            raise InvalidOption(f"the stored retry policy cannot be read: {exc}") from exc
        return cls(
            max_attempts=stored.max_attempts,
            backoff=(backoff or "exponential") if stored.backoff == "callable" else cast(Backoff, stored.backoff),
            initial=stored.initial,
            maximum=stored.maximum,
            jitter=stored.jitter,
            retry_on=stored.retry_on,
            give_up_on=stored.give_up_on,
        )

    @property
    def is_default(self) -> bool:
        """Whether this is the policy of ``Retry()``, which need not be stored."""
        return self == _DEFAULT

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Retry) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        names = (_names(self.retry_on), _names(self.give_up_on))
        return (self.max_attempts, self.backoff, self.initial, self.maximum, self.jitter, *names)

    def _uncapped(self, attempt: int) -> float:
        initial = cast(float, self.initial)
        if callable(self.backoff):
            return _call(self.backoff, attempt)
        try:
            match self.backoff:
                case "none":
                    return 0.0
                case "fixed":
                    return initial
                case "linear":
                    return initial * attempt
                case "exponential":
                    return math.ldexp(initial, min(attempt - 1, _MOST_DOUBLINGS))
        except OverflowError:
            # Too large for a float, so certainly above the cap.
            return math.inf


class _Stored(msgspec.Struct, frozen=True):
    max_attempts: int = 3
    backoff: str = "exponential"
    initial: float = 1.0
    maximum: float = 3600.0
    jitter: bool = True
    retry_on: tuple[str, ...] = ("builtins.Exception",)
    give_up_on: tuple[str, ...] = ()


def _refuse(field: str, value: object, accepted: str) -> None:
    raise InvalidOption(
        f"{field}={shown(value)} is not accepted: expected {accepted}", field=field, reason=f"expected {accepted}"
    )


def _number(value: object) -> float:
    """The seconds in a duration, NaN when it is none."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _seconds(field: str, value: object) -> float:
    seconds = _number(value)
    # NaN fails every comparison.
    if not 0 <= seconds < math.inf:
        _refuse(field, value, "seconds or a timedelta, finite and not negative")
    return seconds


def _call(backoff: Callable[[int], Duration], attempt: int) -> float:
    try:
        value: object = backoff(attempt)
    except Exception as exc:
        raised = f"raised {type(exc).__name__} for attempt {attempt}"
        raise InvalidOption(f"backoff={backoff!r} {raised}", field="backoff", reason=raised) from exc
    seconds = _number(value)
    if not seconds >= 0:
        raise InvalidOption(
            f"backoff={backoff!r} gave {value!r} for attempt {attempt}: expected seconds or a timedelta, not negative",
            field="backoff",
            reason="expected seconds or a timedelta, not negative",
        )
    return seconds


def _failures(field: str, value: object) -> tuple[Failure, ...]:
    failures = tuple(value) if isinstance(value, tuple | list | set | frozenset) else (value,)
    for failure in failures:
        is_class = isinstance(failure, type) and issubclass(failure, BaseException)
        if not is_class and not (isinstance(failure, str) and _is_name(failure)):
            _refuse(field, value, "exception classes")
    return cast(tuple[Failure, ...], failures)


def _is_name(text: str) -> bool:
    """Whether it can name a class; every other text is stored in vain, and some cannot be stored."""
    return bool(text.strip()) and text.isprintable()


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


@lru_cache(maxsize=256)
def _names_with_bases(kind: type[BaseException]) -> frozenset[str]:
    return frozenset(map(_name, kind.__mro__))


def _names(failures: object) -> tuple[str, ...]:
    return _names_of(cast(tuple[Failure, ...], failures))


@lru_cache(maxsize=256)
def _names_of(failures: tuple[Failure, ...]) -> tuple[str, ...]:
    return tuple(f if isinstance(f, str) else _name(f) for f in failures)


_DEFAULT = Retry()
NO_RETRY = Retry(max_attempts=1, backoff="none")
"""One attempt, whatever happens."""
