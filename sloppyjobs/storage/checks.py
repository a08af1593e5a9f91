"""Checks of the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from sloppyjobs.storage.ports.findings import FAIL, OK, Finding

if TYPE_CHECKING:
    from sloppyjobs.storage.store import SqlStore

Check = Callable[["SqlStore", Connection], Iterator[Finding]]


def claim_plan(good: bool, detail: str) -> Finding:
    """Whether the claim goes through its index."""
    if good:
        return Finding("claim plan", OK, detail)
    return Finding("claim plan", FAIL, detail, "see that the indexes are there, and run ANALYZE")
