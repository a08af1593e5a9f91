"""What a check of the database found."""

from __future__ import annotations

import msgspec

OK, WARN, FAIL = "ok", "warn", "FAIL"


class Finding(msgspec.Struct, frozen=True):
    """What a check found, and what to do about it. ``status`` is ``ok``, ``warn`` or ``FAIL``."""

    check: str
    status: str
    detail: str
    hint: str | None = None
