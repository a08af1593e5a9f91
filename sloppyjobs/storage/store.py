"""The store as a whole: one object for each responsibility, put together over one database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection, Engine

from sloppyjobs.domain.model import LINKING, Claim, Job, NewJob, Settlement, terms_by
from sloppyjobs.storage.admin.alerts import Alerts
from sloppyjobs.storage.admin.archive import Archive
from sloppyjobs.storage.admin.audit import Audit
from sloppyjobs.storage.admin.deploys import Deploys
from sloppyjobs.storage.admin.form_keys import FormKeys
from sloppyjobs.storage.admin.payloads import Payloads
from sloppyjobs.storage.admin.retry_run_rows import RetryRunRows
from sloppyjobs.storage.admin.retry_runs import RetryRuns
from sloppyjobs.storage.admin.throttles import Throttles
from sloppyjobs.storage.batches.batches import Batches
from sloppyjobs.storage.batches.commands import BatchCommands
from sloppyjobs.storage.batches.members import BatchMembers
from sloppyjobs.storage.batches.rows import BatchRows
from sloppyjobs.storage.caller_transactions import Callers
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialect import Dialect
from sloppyjobs.storage.doctor import Doctor
from sloppyjobs.storage.inspection import SqlInspection
from sloppyjobs.storage.jobs.commands import Commands
from sloppyjobs.storage.jobs.dependencies import Dependencies, ResultOpener
from sloppyjobs.storage.jobs.expiries import Expiries
from sloppyjobs.storage.jobs.followups import Followups
from sloppyjobs.storage.jobs.lanes import Lanes
from sloppyjobs.storage.jobs.leases import Leases
from sloppyjobs.storage.jobs.linked_insert import LinkedInsert
from sloppyjobs.storage.jobs.logs import JobLogs
from sloppyjobs.storage.jobs.permit_line import PermitLine
from sloppyjobs.storage.jobs.permit_sweep import PermitSweep
from sloppyjobs.storage.jobs.permits import Permits
from sloppyjobs.storage.jobs.settle import HeldRows
from sloppyjobs.storage.jobs.signals import Signals
from sloppyjobs.storage.jobs.steps import Steps
from sloppyjobs.storage.jobs.suspended import Suspended
from sloppyjobs.storage.jobs.sweep import Sweeper
from sloppyjobs.storage.jobs.transitions import Transitions
from sloppyjobs.storage.jobs.unanswered import Unanswered
from sloppyjobs.storage.limits import Limits
from sloppyjobs.storage.location import Location
from sloppyjobs.storage.locks import Locks
from sloppyjobs.storage.ports.claims import SWEEP_LIMIT, ClaimRequest, Fence, Sweep, Turns
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
from sloppyjobs.storage.schema.migrate import Migrations
from sloppyjobs.storage.schema.tables import Tables
from sloppyjobs.storage.upkeep.ageing import PriorityAgeing
from sloppyjobs.storage.upkeep.cleanup import Cleanup
from sloppyjobs.storage.upkeep.deaths import Deaths
from sloppyjobs.storage.upkeep.retention import Retention
from sloppyjobs.storage.upkeep.sealed_texts import SealedTexts
from sloppyjobs.storage.watcher import Watcher
from sloppyjobs.storage.workers import WorkerRows
from sloppyjobs.storage.workflows.workflows import Workflows

T = TypeVar("T")


class SqlStore:
    """Jobs in a SQL database: the verbs of a worker here, everything else in the parts."""

    def __init__(
        self,
        database: Database,
        *,
        followups: Followups | None = None,
        unanswered: Unanswered | None = None,
        opener: ResultOpener | None = None,
    ) -> None:
        self.database = database
        self.followups = Followups() if followups is None else followups
        self.unanswered = Unanswered() if unanswered is None else unanswered
        self.opener = ResultOpener() if opener is None else opener
        self._compose()

    def _compose(self) -> None:
        database = self.database
        hot = database.dialect.operations(database)
        followups = Followups(also=self.followups)
        keyset = Keyset(database)
        counts = Counts(database, keyset)
        held_rows = HeldRows(database)
        self.migrations = Migrations(database)
        self.inserts = hot.insert(database)
        self.settlement = hot.settle(database, held_rows, followups, self.unanswered)
        self.deaths = Deaths(database)
        self.transitions = Transitions(database, self.deaths, followups)
        self._compose_waits(database, followups)
        self.claims = hot.claims(database, Lanes(database), self.settlement, self.unanswered, self.permits)
        self.leases = Leases(database, held_rows)
        self.history = History(database, keyset)
        self.sweeper = Sweeper(
            database,
            self.settlement,
            self.claims.promotion,
            Expiries(database, self.transitions),
            self.suspended,
            self.permit_sweep,
        )
        self.keys = hot.keys(database)
        self.keys.follow(followups)
        self.dependencies = Dependencies(database, self.transitions, self.opener)
        self.dependencies.follow(followups)
        self.suspended.follow(followups)
        self.linked_inserts = LinkedInsert(database, self.inserts, self.keys, self.transitions, self.dependencies)
        self.commands = Commands(database, self.transitions, self.history)
        self.callers = Callers(self)
        self.locks = Locks(database)
        self.logs = JobLogs(database)
        self.redactions = Redactions(database)
        self.throttles = Throttles(database)
        self.form_keys = FormKeys(database)
        self.search = JobSearch(database)
        self.lists = JobLists(database, keyset)
        self.audit = Audit(database, self.commands, keyset, self.inserts)
        self.deploys = Deploys(database, self.audit)
        self.workers = WorkerRows(database, self.audit, self.deploys)
        self.signals = Signals(database, self.suspended, self.keys, self.audit)
        self._compose_commands(keyset)
        self._compose_batches(keyset, followups)
        self.dead_groups = DeadGroups(database, counts, keyset, self.deaths, self.lists)
        self.retention = Retention(database, keyset, followups)
        self.ageing = PriorityAgeing(database, self.retention, self.audit, self.inserts)
        self.limits = Limits(database, self.permits, self.permit_sweep, self.audit, self.retention)
        self.cleanup = Cleanup(database, self.retention, self.dependencies, self.suspended, self.limits)
        self.workflows = Workflows(database, keyset, self.linked_inserts, self.commands, self.audit, self.retention)
        self.retry_run_rows = RetryRunRows(database, keyset)
        self.retry_runs = RetryRuns(
            database,
            self.lists,
            self.transitions,
            self.audit,
            self.retry_run_rows,
            keyset,
            self.commands,
            self.dead_groups,
        )
        self.overview = Overview(database, counts, keyset)
        self._compose_schedules(keyset)

    def _compose_batches(self, keyset: Keyset, followups: Followups) -> None:
        database = self.database
        self.batch_rows = BatchRows(database, keyset)
        self.batches = Batches(database, self.batch_rows, self.inserts)
        self.batch_commands = BatchCommands(database, self.batches, self.batch_rows, self.commands, self.audit)
        BatchMembers(database, self.batches.end_over).follow(followups)

    def _compose_schedules(self, keyset: Keyset) -> None:
        database = self.database
        self.recent_runs = RecentRuns(database, keyset)
        self.firing = ScheduleFiring(database, self.inserts)
        self.schedules = Schedules(database, self.firing, self.inserts, self.audit)

    def _compose_commands(self, keyset: Keyset) -> None:
        """What operators do besides moving jobs."""
        database = self.database
        self.alerts = Alerts(database, keyset, self.audit, self.inserts)
        self.payloads = Payloads(database, self.audit)
        self.archive = Archive(database, keyset, self.audit, self.inserts, self.linked_inserts)

    def _compose_waits(self, database: Database, followups: Followups) -> None:
        """What jobs wait for besides each other: times, signals, permits."""
        self.steps = Steps(database)
        self.suspended = Suspended(database, self.transitions)
        self.suspended.note_first(followups)
        self.permits = Permits(database, self.transitions, PermitLine(database, self.transitions))
        self.permits.follow(followups)
        self.permit_sweep = PermitSweep(database, self.permits)

    # The database

    @property
    def engine(self) -> Engine:
        """Where connections come from."""
        return self.database.engine

    @property
    def dialect(self) -> Dialect:
        """What is different in this database."""
        return self.database.dialect

    @property
    def tables(self) -> Tables:
        """The tables."""
        return self.database.tables

    @property
    def clock(self) -> Clock:
        """The clock in force."""
        return self.database.clock

    @property
    def inspection(self) -> SqlInspection:
        """What the conformance suite sees of the rows."""
        return SqlInspection(self)

    @property
    def sealed(self) -> SealedTexts:
        """Every text that may be encrypted."""
        return SealedTexts(self.database)

    @property
    def doctor(self) -> Doctor:
        """The checks of this database."""
        return Doctor(self)

    @property
    def location(self) -> Location:
        """Where this database is."""
        return Location(self.engine.url, self.dialect)

    def snapshot(self, work: Callable[[], T]) -> T:
        """Run ``work``, whose reads share one transaction and one instant."""
        return self.database.snapshot(work)

    def watch(self) -> Watcher:
        """A watcher for news from other processes."""
        return self.database.watch()

    def on_engine(self, engine: Engine) -> SqlStore:
        """A store of the same tables that writes on connections of this engine, whose driver may be another one."""
        return SqlStore(self.database.on_engine(engine), followups=self.followups, opener=self.opener)

    def with_own_connections(self) -> SqlStore:
        """The same store on connections that nobody else can use up; itself where they are its own already."""
        database = self.database.with_own_connections()
        if database is self.database:
            return self
        return SqlStore(database, followups=self.followups, unanswered=self.unanswered, opener=self.opener)

    def close(self) -> None:
        """Close the pool, if it is ours."""
        self.database.close()

    # The schema

    def init(self) -> int:
        """Create the tables or bring them up to date; safe to repeat and to race. Returns the version."""
        return self.migrations.init()

    def ddl(self) -> str:
        """The statements that create the schema, for people who apply them by hand."""
        return self.migrations.ddl()

    def schema_version(self, connection: Connection | None = None) -> int | None:
        """The version of the tables that are there, or None."""
        return self.database.schema_version(connection)

    def ensure_schema(self, connection: Connection | None = None) -> None:
        """Raise unless the tables have exactly the version of this code."""
        self.database.ensure_schema(connection)

    # Jobs

    def insert_jobs(self, new: Sequence[NewJob], connection: Connection | None = None) -> list[Job]:
        """Write the jobs and their first events; all or none. A matching key answers with the job it found."""
        if not self.dialect.trailing_spaces:
            new = self.dialect.as_kept(new)
        different = terms_by(new, *LINKING, "batch_id")
        if any(terms.linked for terms in different):
            return self.linked_inserts.insert_jobs(new, connection)
        if any(terms.batch_id is not None for terms in different):
            return self.inserts.insert_members(new, connection)
        return self.inserts.insert_jobs(new, connection)

    def get_job(self, job_id: str, connection: Connection | None = None) -> Job:
        """The job with this id, or ``UnknownJob``."""
        return self.history.get_job(job_id, connection)

    def sweep(self, limit: int = SWEEP_LIMIT) -> Sweep:
        """Return jobs with expired leases to the queue, then promote what has become due."""
        return self.sweeper.sweep(limit)

    def claim(self, request: ClaimRequest) -> list[Claim]:
        """Take queued jobs in their order."""
        return self.claims.claim(request)

    def turn(self, settlements: Sequence[Settlement], request: ClaimRequest | None) -> tuple[set[str], Sequence[Claim]]:
        """Settle what has finished and claim anew."""
        return self.claims.turn(settlements, request)

    def turns(self) -> Turns:
        """The turns of one worker."""
        return self.claims.turns()

    def settle(self, settlements: Sequence[Settlement]) -> set[str]:
        """Write what was decided, fenced; returns the ids that were accepted."""
        return self.claims.settle(settlements)

    def renew(self, worker_id: str, held: Sequence[Fence], lease: float) -> dict[Fence, datetime]:
        """Extend leases, fenced; returns the new ends of those that are still held."""
        return self.leases.renew(worker_id, held, lease)

    def still_held(self, worker_id: str, held: Sequence[Fence]) -> set[Fence]:
        """Which of these attempts are still the worker's."""
        return self.leases.still_held(worker_id, held)

    def set_progress(
        self, worker_id: str, fence: Fence, percent: float | None, message: str | None, fields: str | None = None
    ) -> bool:
        """Store how far a running job is, fenced."""
        return self.leases.set_progress(worker_id, fence, percent, message, fields)
