"""The hot operations of a store, which a dialect may replace by faster ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.jobs.claim import Claims
from sloppyjobs.storage.jobs.followups import Followups
from sloppyjobs.storage.jobs.insert import Insert
from sloppyjobs.storage.jobs.keys import Keys
from sloppyjobs.storage.jobs.lanes import Lanes
from sloppyjobs.storage.jobs.permits import Permits
from sloppyjobs.storage.jobs.settle import HeldRows, Settle
from sloppyjobs.storage.jobs.unanswered import Unanswered


@dataclass(frozen=True)
class Operations:
    """How each of them is made. The defaults are common SQL."""

    insert: Callable[[Database], Insert] = Insert
    """Writes new jobs."""
    keys: Callable[[Database], Keys] = Keys
    """Takes business keys."""
    settle: Callable[[Database, HeldRows, Followups, Unanswered], Settle] = Settle
    """Settles attempts."""
    claims: Callable[[Database, Lanes, Settle, Unanswered, Permits], Claims] = Claims
    """Claims, and the turns of a worker, each of which settles and claims."""
