"""What a check of the database found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import Connection

if TYPE_CHECKING:
    from sloppyjobs.storage.store import SqlStorage

OK, WARN, FAIL = "ok", "warn", "FAIL"


class Finding(msgspec.Struct, frozen=True):
    """What a check found, and what to do about it. ``status`` is ``ok``, ``warn`` or ``FAIL``."""

    check: str
    status: str
    detail: str
    hint: str | None = None


Check = Callable[["SqlStorage", Connection], Iterator[Finding]]


def claim_plan(good: bool, detail: str) -> Finding:
    """Whether the claim goes through its index."""
    if good:
        return Finding("claim plan", OK, detail)
    return Finding("claim plan", FAIL, detail, "see that the indexes are there, and run ANALYZE")
