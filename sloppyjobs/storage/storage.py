"""The storage as a whole: every responsibility of ``ports`` in one object."""

from __future__ import annotations

from functools import cached_property

from sloppyjobs.storage.audit import Auditing
from sloppyjobs.storage.callers import Callers
from sloppyjobs.storage.finding import Findable
from sloppyjobs.storage.history import History
from sloppyjobs.storage.inspection import SqlInspection
from sloppyjobs.storage.observing import Observing
from sloppyjobs.storage.recent_runs import RecentRuns
from sloppyjobs.storage.remains import Clearing
from sloppyjobs.storage.retry_runs import RetryRuns
from sloppyjobs.storage.schedules import Scheduling
from sloppyjobs.storage.turning import TogetherTurns, Turns


class SqlStorage(Clearing, RetryRuns, Observing, RecentRuns, History, Auditing, Scheduling, Findable):
    """Jobs in a SQL database. A dialect derives from it and says only what is different there."""

    @cached_property
    def callers(self) -> Callers:
        """The transactions of callers, and who writes in them."""
        return Callers(self)

    @property
    def inspection(self) -> SqlInspection:
        """What the conformance suite sees of the rows."""
        return SqlInspection(self)

    def turns(self) -> Turns:
        """The turns of one worker."""
        return TogetherTurns(self.turn)
