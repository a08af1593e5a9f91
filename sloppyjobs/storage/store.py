"""The storage as a whole: one object for each responsibility, put together over one database."""

from __future__ import annotations

from typing import Any, Self

from sloppyjobs.storage.admin.audit import Audit
from sloppyjobs.storage.admin.form_keys import FormKeys
from sloppyjobs.storage.admin.retry_run_rows import RetryRunRows
from sloppyjobs.storage.admin.retry_runs import RetryRuns
from sloppyjobs.storage.admin.throttles import Throttles
from sloppyjobs.storage.caller_transactions import Callers
from sloppyjobs.storage.doctor import Doctor
from sloppyjobs.storage.inspection import SqlInspection
from sloppyjobs.storage.jobs.commands import Commanding
from sloppyjobs.storage.jobs.logs import JobLogs
from sloppyjobs.storage.jobs.turns import TogetherTurns
from sloppyjobs.storage.location import Location
from sloppyjobs.storage.locks import Locks
from sloppyjobs.storage.ports.claims import Turns
from sloppyjobs.storage.reads.counts import Counts
from sloppyjobs.storage.reads.dead_groups import DeadGroups
from sloppyjobs.storage.reads.history import History
from sloppyjobs.storage.reads.job_lists import JobLists
from sloppyjobs.storage.reads.job_search import JobSearch
from sloppyjobs.storage.reads.keyset import Keyset
from sloppyjobs.storage.reads.overview import Overview
from sloppyjobs.storage.redactions import Redactions
from sloppyjobs.storage.schedules.firing import ScheduleFiring
from sloppyjobs.storage.schedules.recent_runs import RecentRuns
from sloppyjobs.storage.schedules.schedules import Schedules
from sloppyjobs.storage.upkeep.cleanup import Cleanup
from sloppyjobs.storage.upkeep.deaths import Deaths
from sloppyjobs.storage.upkeep.retention import Retention
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
        self.schedules = Schedules(self, self.firing, self, self.audit)

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

    @property
    def doctor(self) -> Doctor:
        """The checks of this database."""
        return Doctor(self)

    @property
    def location(self) -> Location:
        """Where this database is."""
        return Location(self.engine.url, self.dialect)

    def turns(self) -> Turns:
        """The turns of one worker."""
        return TogetherTurns(self.turn)
