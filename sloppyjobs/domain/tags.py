"""Tags of jobs: words by which they are found together. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sloppyjobs.domain import options

MOST_TAGS = 20
"""Tags that one job may have."""


def encode_tags(value: object) -> str | None:
    """The tags as they are stored, each once; None for none. ``InvalidOption`` for what are no tags."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise options.refuse("tags", value, f"must be a list of words, such as tags=({options.shown(value)},)")
    found = list(dict.fromkeys(options.text("tags", tag) for tag in value))
    if len(found) > MOST_TAGS:
        raise options.refuse("tags", f"{len(found)} tags", f"must be at most {MOST_TAGS}")
    return msgspec.json.encode(found).decode() if found else None
