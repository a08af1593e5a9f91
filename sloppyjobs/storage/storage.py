"""The storage as a whole: every responsibility of ``ports`` in one object."""

from __future__ import annotations

from sloppyjobs.storage.audit import Auditing
from sloppyjobs.storage.causes import DeadCauses
from sloppyjobs.storage.history import History
from sloppyjobs.storage.observing import Observing
from sloppyjobs.storage.remains import Clearing
from sloppyjobs.storage.schedules import Scheduling
from sloppyjobs.storage.turning import TogetherTurns, Turns


class SqlStorage(Clearing, DeadCauses, Observing, History, Auditing, Scheduling):
    """Jobs in a SQL database. A dialect derives from it and says only what is different there."""

    def turns(self) -> Turns:
        """The turns of one worker."""
        return TogetherTurns(self.turn)
