"""The storage as a whole: one object for each responsibility, put together over one database."""

from __future__ import annotations

from typing import Any, Self

from sloppyjobs.storage.audit import Audit
from sloppyjobs.storage.callers import Callers
from sloppyjobs.storage.causes import DeadGroups
from sloppyjobs.storage.commands import Commanding
from sloppyjobs.storage.counting import Counts
from sloppyjobs.storage.deaths import Deaths
from sloppyjobs.storage.finding import JobSearch
from sloppyjobs.storage.firing import ScheduleFiring
from sloppyjobs.storage.form_keys import FormKeys
from sloppyjobs.storage.history import History
from sloppyjobs.storage.inspection import SqlInspection
from sloppyjobs.storage.listing import JobLists
from sloppyjobs.storage.locks import Locks
from sloppyjobs.storage.loglines import JobLogs
from sloppyjobs.storage.observing import Overview
from sloppyjobs.storage.recent_runs import RecentRuns
from sloppyjobs.storage.redactions import Redactions
from sloppyjobs.storage.remains import Cleanup
from sloppyjobs.storage.retention import Retention
from sloppyjobs.storage.retry_run_rows import RetryRunRows
from sloppyjobs.storage.retry_runs import RetryRuns
from sloppyjobs.storage.schedules import Schedules
from sloppyjobs.storage.throttles import Throttles
from sloppyjobs.storage.turning import TogetherTurns, Turns
from sloppyjobs.storage.walking import Keyset
from sloppyjobs.storage.workers import WorkerRows


class SqlStorage(Commanding):
    """Jobs in a SQL database. A dialect derives from it for its hot paths."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._compose()

    def _compose(self) -> None:
        """Put the operations together, over this database."""
        keyset = Keyset(self)
        counts = Counts(self, keyset)
        self.callers = Callers(self)
        self.deaths = Deaths(self)
        self.locks = Locks(self)
        self.workers = WorkerRows(self)
        self.logs = JobLogs(self)
        self.redactions = Redactions(self)
        self.throttles = Throttles(self)
        self.form_keys = FormKeys(self)
        self.search = JobSearch(self)
        self.lists = JobLists(self, keyset, self)
        self.history = History(self)
        self.audit = Audit(self, self, keyset, self)
        self.dead_groups = DeadGroups(self, counts, keyset, self.deaths, self.lists)
        self.retention = Retention(self, keyset, self)
        self.cleanup = Cleanup(self, self.retention)
        self.retry_run_rows = RetryRunRows(self, keyset)
        self.retry_runs = RetryRuns(
            self, self.lists, self, self.audit, self.retry_run_rows, keyset, self, self.dead_groups
        )
        self.overview = Overview(self, counts, keyset)
        self.recent_runs = RecentRuns(self, keyset)
        self.firing = ScheduleFiring(self, self)
        self.schedules = Schedules(self, self.firing)

    def apart(self) -> Self:
        """The same storage on connections of its own; its operations use these too."""
        other = super().apart()
        if other is not self:
            other._compose()
        return other

    @property
    def inspection(self) -> SqlInspection:
        """What the conformance suite sees of the rows."""
        return SqlInspection(self)

    def turns(self) -> Turns:
        """The turns of one worker."""
        return TogetherTurns(self.turn)
