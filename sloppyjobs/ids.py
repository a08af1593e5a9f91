"""Ids: a prefix, an underscore and a UUID in lower-case Crockford base32, so that text order is time order.

A new id is a UUIDv7. Its 26 characters are, in bits: 2 of padding, 48 of Unix milliseconds, 4 of version,
12 of counter, 2 of variant and 62 of randomness; the first ten characters are exactly the time.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
# Changing it would give every occurrence a second id, and so a second job.
OCCURRENCES = UUID("5b1b9a52-6c0e-5d0f-9d3c-2f6c1f0b7a4e")
CALLBACKS = UUID("0c5b4a52-27d4-5f4b-8f3b-3b1f6f0c9d11")

_PAIRS = tuple(a + b for a in ALPHABET for b in ALPHABET)
# 26 characters hold 130 bits, so a first digit above 7 would be more than a UUID.
_ID = re.compile(r"([a-z][a-z0-9_]*)_([0-7][0-9a-hjkmnp-tv-z]{25})")
_TO_DIGITS = str.maketrans(ALPHABET, "0123456789abcdefghijklmnopqrstuv")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_VERSION = 7 << 6
_VARIANT = 0b10 << 2
_CHARACTERS = bytes(ord(ALPHABET[byte & 31]) for byte in range(256))
# What stands for the last six bits of the counter: the first five of them, and the last with the variant and two random
# bits.
_HIGH_BITS = bytes(ord(ALPHABET[count >> 1]) for count in range(64))
_AFTER_EVEN = bytes(ord(ALPHABET[_VARIANT | byte & 3]) for byte in range(256))
_AFTER_ODD = bytes(ord(ALPHABET[1 << 4 | _VARIANT | byte & 3]) for byte in range(256))

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
        tick, p = self._reserve(1), _PAIRS
        head = f"{prefix}_{_time(tick >> 12)}{p[_VERSION | tick >> 6 & 63]}"
        # Six bits of the counter, the variant and 62 random bits: seven pairs of characters.
        tail = (tick & 63) << 64 | 0b10 << 62 | int.from_bytes(os.urandom(8)) >> 2
        return (
            f"{head}{p[tail >> 60]}{p[tail >> 50 & 1023]}{p[tail >> 40 & 1023]}{p[tail >> 30 & 1023]}"
            f"{p[tail >> 20 & 1023]}{p[tail >> 10 & 1023]}{p[tail & 1023]}"
        )

    def many(self, prefix: str, n: int) -> list[str]:
        """``n`` ids in ascending order, cheaper than ``n`` calls of ``new``."""
        if n <= 0:
            return []
        tick = self._reserve(n)
        tails, ids = _tails(tick, n), list[str]()
        while (place := len(ids)) < n:
            # All but the last six bits of the counter is the same for up to 64 ids.
            count = tick + place
            head = f"{prefix}_{_time(count >> 12)}{_PAIRS[_VERSION | count >> 6 & 63]}"
            ids += map(head.__add__, tails[place : place + 64 - (count & 63)])
        return ids

    def _reserve(self, n: int) -> int:
        # Milliseconds and counter are one number: a full counter carries into the next millisecond, and a
        # clock that steps back loses against the last value.
        now = self._now_ms() << 12
        with _lock:
            first = max(self._last + 1, now)
            self._last = first + n - 1
        return first


def _tails(tick: int, n: int) -> list[str]:
    """The last 14 characters of ``n`` ids: six bits of the counter, the variant, and randomness.

    Column by column, in lines of one text: a loop takes several times as long.
    """
    lines = bytearray(os.urandom(15 * n).translate(_CHARACTERS))
    first, odd = tick & 63, tick & 1
    lines[::15] = (_HIGH_BITS * (n // 64 + 2))[first : first + n]
    lowest = bytearray(os.urandom(n))
    lowest[odd::2] = lowest[odd::2].translate(_AFTER_EVEN)
    lowest[1 - odd :: 2] = lowest[1 - odd :: 2].translate(_AFTER_ODD)
    lines[1::15] = lowest
    lines[14::15] = b"\n" * n
    return lines[:-1].decode().split("\n")


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
    return _job_id(uuid5(OCCURRENCES, f"{schedule_id}|{utc.isoformat(timespec='microseconds')}Z"))


def callback(batch_id: str, kind: str) -> str:
    """The job id of a batch's callback: the same for everybody who computes it."""
    return _job_id(uuid5(CALLBACKS, f"{batch_id}|{kind}"))


def _job_id(value: UUID) -> str:
    number = value.int
    return f"job_{_time(number >> 80)}" + "".join(_PAIRS[(number >> s) & 1023] for s in range(70, -1, -10))


def _time(ms: int) -> str:
    p = _PAIRS
    return f"{p[ms >> 40]}{p[ms >> 30 & 1023]}{p[ms >> 20 & 1023]}{p[ms >> 10 & 1023]}{p[ms & 1023]}"


SHORT_MARK = "…"
_HEAD, _TAIL = 8, 4


def shortened(id: str) -> str:
    """An id without its middle, for narrow tables. The first part still says when, the last one which."""
    prefix, _, rest = id.partition("_")
    if len(rest) <= _HEAD + _TAIL + 1:
        return id
    return f"{prefix}_{rest[:_HEAD]}{SHORT_MARK}{rest[-_TAIL:]}"


def parts_of_short(text: str) -> tuple[str, str] | None:
    """The beginning and the end of a shortened id (``…`` or ``...`` in the middle); None where it is none."""
    head, mark, tail = text.replace("...", SHORT_MARK).partition(SHORT_MARK)
    rest = head.partition("_")[2]
    if not mark or len(rest) < _HEAD or len(tail) < _TAIL or not set(rest + tail) <= set(ALPHABET):
        return None
    return head, tail
