"""Numbers that somebody typed: exactly what was written, or refused where it was written."""

from __future__ import annotations

from typing import NamedTuple

_LONGEST = 9


class Refused(NamedTuple):
    """A field whose value was refused: which form it is in, what was typed, and what to write instead."""

    form: str
    field: str
    typed: str
    text: str


def whole(typed: str, most: int) -> int | None:
    """The number from 1 to ``most`` that was typed; None for anything else, nothing included."""
    text = typed.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST):
        return None
    number = int(text)
    return number if 1 <= number <= most else None


def refusal(form: str, field: str, typed: str, most: int) -> Refused:
    """The message where a number was refused."""
    text = f"Write a number from 1 to {most:,}." if most > 1 else "Write 1."
    return Refused(form, field, typed[:40], text)
