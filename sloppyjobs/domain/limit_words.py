"""Limits in words, the same on the command line, on pages and in explanations. Pure."""

from __future__ import annotations

_SPANS = {1.0: "second", 60.0: "minute", 3600.0: "hour", 86_400.0: "day"}


def at_once(concurrency: int | None) -> str:
    """``5 at once``."""
    return "any number at once" if concurrency is None else f"{concurrency:,} at once"


def rate_of(rate: int | None, per: float | None) -> str | None:
    """``100 per minute``; None where there is no rate."""
    if rate is None or per is None:
        return None
    return f"{rate:,} per {_SPANS.get(per) or f'{per:g} s'}"


def limit_words(concurrency: int | None, rate: int | None, per: float | None) -> str:
    """``5 at once, 100 per minute``."""
    parts = [at_once(concurrency) if concurrency is not None else None, rate_of(rate, per)]
    return ", ".join(part for part in parts if part) or "no limit"
