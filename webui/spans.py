"""Spans of time that a page looks back over, and how they are named."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """How far a page looks back."""

    key: str
    """In the address."""
    minutes: int
    short: str
    """In a tile: ``24 h``, which is not broken into two lines."""
    words: str
    """In a sentence, after "the last" or alone as a heading: ``24 hours``."""


SPANS = (
    Span("1h", 60, "1\u00a0h", "hour"),
    Span("6h", 360, "6\u00a0h", "6 hours"),
    Span("24h", 1_440, "24\u00a0h", "24 hours"),
    Span("7d", 10_080, "7\u00a0d", "7 days"),
)


def span_named(key: str | None) -> Span:
    """The span with this key; the shortest for any other."""
    return next((span for span in SPANS if span.key == key), SPANS[0])
