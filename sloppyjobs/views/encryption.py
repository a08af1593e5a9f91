"""What is shown of encryption at rest. Ids of keys, never a key."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

CLEAR = "clear"
"""Where a key's id would be, of a text that is not encrypted."""


class RekeyRun(msgspec.Struct, frozen=True, kw_only=True):
    """The latest run of ``rekey``: how far it is, in rows, and whether it still moves."""

    state: str
    """``running``, ``finished``, or ``stopped``: it has not reached the end, and has not moved for a minute."""
    key_id: str
    """The id of the key that it encrypts with."""
    actor: str | None
    total: int
    """Rows that there were when it began."""
    examined: int
    left: int
    """Rows that it has not looked at yet."""
    rewritten: int
    changed: int
    """Rows that somebody else wrote meanwhile, and that were left as they are."""
    unreadable: int
    percent: float
    rate: float | None
    """Rows in a second, since it began; None before it has moved."""
    eta: datetime | None
    """When it will be at the end at this rate; None where it does not run."""
    started_at: datetime
    moved_at: datetime
    """When it last did something."""
    finished_at: datetime | None


class EncryptionView(msgspec.Struct, frozen=True, kw_only=True):
    """Which keys are here, and which the stored texts need; counted among the oldest and latest rows."""

    on: bool
    keys: tuple[str, ...]
    """The ids of the keys that are here; the first one writes."""
    needed: Mapping[str, int]
    """How many texts need which key."""
    outdated: int
    """Texts under a key that is not the first: ``rekey`` encrypts them anew."""
    in_the_clear: int
    missing: tuple[str, ...]
    """Keys that texts need and that are not here."""
    examined: int
    """Rows that were looked at."""
    rekey: RekeyRun | None = None
    """The latest run of ``rekey``; None where there was none lately."""


class RekeyStep(msgspec.Struct, frozen=True):
    """What a step of ``rekey`` did."""

    examined: int
    rewritten: int
    changed: int
    """Rows that somebody else wrote meanwhile, and that were left as they are."""
    unreadable: int
    """Rows that cannot be decrypted: their key is not here, or they were changed."""
    cursor: str | None
    """Where to go on; None at the end."""
