"""Ids: a prefix, an underscore and a UUID in lower-case Crockford base32, so that text order is time order.

A new id is a UUIDv7. Its 26 characters are, in bits: 2 of padding, 48 of Unix milliseconds, 4 of version,
12 of counter, 2 of variant and 62 of randomness; the first ten characters are exactly the time.
"""

from __future__ import annotations

import os
import re
import struct
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
# Changing it would give every occurrence a second id, and so a second job.
OCCURRENCES = UUID("5b1b9a52-6c0e-5d0f-9d3c-2f6c1f0b7a4e")

_PAIRS = tuple(a + b for a in ALPHABET for b in ALPHABET)
# 26 characters hold 130 bits, so a first digit above 7 would be more than a UUID.
_ID = re.compile(r"([a-z][a-z0-9_]*)_([0-7][0-9a-hjkmnp-tv-z]{25})")
_TO_DIGITS = str.maketrans(ALPHABET, "0123456789abcdefghijklmnopqrstuv")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_VERSION = 7 << 6
_VARIANT = 0b10 << 2
_RANDOM = struct.Struct("=6H")

# Reentrant, because a signal handler may ask for an id while its own thread is inside. Shared by all
# generators and held across a fork, so that a child never inherits it locked by a thread it does not have.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class Ids:
    """Makes ids that never go back within this generator, whatever the clock does. Safe between threads.

    ``now_ms`` gives Unix milliseconds. A forked child goes on from its parent's counter; the random bits come
    from the operating system for every id, so the two never make the same one.
    """

    __slots__ = ("_last", "_now_ms")

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._last = -1

    def new(self, prefix: str) -> str:
        """One id, greater as text than every earlier one with this prefix."""
        tick = self._reserve(1)
        return f"{prefix}_{_time(tick >> 12)}{_rest(tick, _RANDOM.unpack(os.urandom(12)))}"

    def many(self, prefix: str, n: int) -> list[str]:
        """``n`` ids in ascending order, cheaper than ``n`` calls of ``new``."""
        if n <= 0:
            return []
        first = self._reserve(n)
        random = _RANDOM.iter_unpack(os.urandom(12 * n))
        ids: list[str] = []
        tick = first
        while len(ids) < n:
            ms = tick >> 12
            head = f"{prefix}_{_time(ms)}"
            stop = min((ms + 1) << 12, first + n)
            ids.extend([head + _rest(t, next(random)) for t in range(tick, stop)])
            tick = stop
        return ids

    def _reserve(self, n: int) -> int:
        # Milliseconds and counter are one number: a full counter carries into the next millisecond, and a
        # clock that steps back loses against the last value.
        now = self._now_ms() << 12
        with _lock:
            first = max(self._last + 1, now)
            self._last = first + n - 1
        return first


def time_of(id: str) -> datetime:
    """When the id was made, to the millisecond, in UTC. ``ValueError`` for anything but a version 7 id."""
    match = _ID.fullmatch(id)
    if match is None:
        raise ValueError(f"{id!r} is not an id: expected a prefix, an underscore and 26 base32 characters")
    value = int(match[2].translate(_TO_DIGITS), 32)
    if (value >> 76) & 0xF != 7 or (value >> 62) & 0b11 != 0b10:
        raise ValueError(f"{id!r} carries no time: it is not a version 7 id")
    try:
        return _EPOCH + timedelta(milliseconds=value >> 80)
    except OverflowError:
        raise ValueError(f"{id!r} is not an id: its time is after the year 9999") from None


def is_id(text: str, prefix: str) -> bool:
    """Whether the text has the form of an id with this prefix, deterministic ids included."""
    match = _ID.fullmatch(text)
    return match is not None and match[1] == prefix


def occurrence(schedule_id: str, instant: datetime) -> str:
    """The job id of a schedule's occurrence: the same for everybody who computes it.

    ``ValueError`` for a naive instant.
    """
    if instant.utcoffset() is None:
        raise ValueError(f"the occurrence {instant!r} has no time zone; pass an aware datetime")
    utc = instant.astimezone(UTC).replace(tzinfo=None)
    value = uuid5(OCCURRENCES, f"{schedule_id}|{utc.isoformat(timespec='microseconds')}Z").int
    return f"job_{_time(value >> 80)}" + "".join(_PAIRS[(value >> s) & 1023] for s in range(70, -1, -10))


def _time(ms: int) -> str:
    p = _PAIRS
    return f"{p[ms >> 40]}{p[ms >> 30 & 1023]}{p[ms >> 20 & 1023]}{p[ms >> 10 & 1023]}{p[ms & 1023]}"


def _rest(tick: int, random: tuple[int, ...]) -> str:
    """Version, counter, variant and randomness, from six random 16-bit numbers."""
    # Many small numbers are faster than one large one, and ten bits are all that a pair can take.
    a, b, c, d, e, f = random
    p = _PAIRS
    return (
        f"{p[_VERSION | tick >> 6 & 63]}{p[(tick & 63) << 4 | _VARIANT | a >> 14]}{p[a & 1023]}{p[b & 1023]}"
        f"{p[c & 1023]}{p[d & 1023]}{p[e & 1023]}{p[f & 1023]}"
    )
