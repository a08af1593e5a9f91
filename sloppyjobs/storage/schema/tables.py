"""The tables, once, for every dialect. The migrations build the same; a test compares the two."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from sqlalchemy import MetaData, Table

from sloppyjobs.domain.options import refuse
from sloppyjobs.storage.schema import (
    alert_tables,
    batch_tables,
    job_tables,
    limit_tables,
    operator_tables,
    service_tables,
)
from sloppyjobs.storage.schema.style import COMMON_STYLE, TableStyle

_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,30}")
_SCHEMA = re.compile(r'[^"\0]{1,63}')
_BUILDERS = (
    service_tables.queues,
    service_tables.workers,
    service_tables.locks,
    service_tables.audit,
    job_tables.keys,
    job_tables.expiries,
    job_tables.tags,
    job_tables.dependencies,
    limit_tables.limits,
    limit_tables.permits,
    limit_tables.parked,
    limit_tables.buckets,
    job_tables.workflows,
    batch_tables.batches,
    batch_tables.batch_members,
    batch_tables.batch_counts,
    job_tables.logs,
    service_tables.throttles,
    operator_tables.deaths,
    operator_tables.retry_runs,
    operator_tables.retry_members,
    operator_tables.form_keys,
    operator_tables.rekeys,
    operator_tables.deploys,
    alert_tables.alert_rules,
    alert_tables.alerts,
)
_STYLED_BUILDERS = (
    job_tables.jobs,
    job_tables.attempts,
    service_tables.stats,
    service_tables.redactions,
    service_tables.recurring,
    job_tables.events,
    job_tables.steps,
    job_tables.archive,
)


_BY_KEY = ("job_dependencies", "job_batch_members", "job_keys", "job_tags")
"""Tables of short rows that are found by their primary key: a row is written once, not into a table and an index."""


@lru_cache(maxsize=16)
def _metadata(prefix: str, schema: str | None, style: TableStyle) -> MetaData:
    """The tables of an installation. Nothing changes them, so storages share them: building them takes milliseconds."""
    built = MetaData(schema=schema)
    for build in _BUILDERS:
        build(prefix, built)
    for build_styled in _STYLED_BUILDERS:
        build_styled(prefix, built, style)
    for table in built.tables.values():
        table.kwargs.update(style.table_options)
        if table.name.removeprefix(prefix) in _BY_KEY:
            table.kwargs.update(style.by_key_options)
    return built


@dataclass(frozen=True)
class Tables:
    """Every table of one installation; a schema or a prefix of its own lets several share a database."""

    prefix: str = "sloppy_"
    schema: str | None = None
    style: TableStyle = COMMON_STYLE
    """How the database makes them."""
    metadata: MetaData = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.prefix, str) or not _PREFIX.fullmatch(self.prefix):
            raise refuse("prefix", self.prefix, "must be a letter or _, then up to 30 letters, digits or _")
        if self.schema is not None and not (isinstance(self.schema, str) and _SCHEMA.fullmatch(self.schema)):
            raise refuse("schema", self.schema, "must have 1 to 63 characters and no quotation mark")
        object.__setattr__(self, "metadata", _metadata(self.prefix, self.schema, self.style))

    def _table(self, name: str) -> Table:
        key = f"{self.schema}.{self.prefix}{name}" if self.schema else f"{self.prefix}{name}"
        return self.metadata.tables[key]

    @cached_property
    def jobs(self) -> Table:
        """Durable job instances."""
        return self._table("jobs")

    @cached_property
    def attempts(self) -> Table:
        """One row per execution attempt."""
        return self._table("job_attempts")

    @cached_property
    def events(self) -> Table:
        """One row per change of a job's status."""
        return self._table("job_events")

    @cached_property
    def queues(self) -> Table:
        """Every queue ever seen, and whether it is paused."""
        return self._table("job_queues")

    @cached_property
    def recurring(self) -> Table:
        """Schedule definitions."""
        return self._table("recurring_jobs")

    @cached_property
    def workers(self) -> Table:
        """Worker registrations and heartbeats."""
        return self._table("job_workers")

    @cached_property
    def locks(self) -> Table:
        """Named locks."""
        return self._table("job_locks")

    @cached_property
    def stats(self) -> Table:
        """Settlements per minute, by queue and name."""
        return self._table("job_stats")

    @cached_property
    def audit(self) -> Table:
        """Who commanded what, when and why."""
        return self._table("job_audit")

    @cached_property
    def keys(self) -> Table:
        """Business keys that are taken, and by which job."""
        return self._table("job_keys")

    @cached_property
    def expiries(self) -> Table:
        """When jobs expire that have not started."""
        return self._table("job_expiries")

    @cached_property
    def tags(self) -> Table:
        """The tags of jobs, in the order of their creation."""
        return self._table("job_tags")

    @cached_property
    def dependencies(self) -> Table:
        """Jobs that wait for other jobs."""
        return self._table("job_dependencies")

    @cached_property
    def limits(self) -> Table:
        """What each resource allows."""
        return self._table("job_limits")

    @cached_property
    def permits(self) -> Table:
        """Permits that are held."""
        return self._table("job_permits")

    @cached_property
    def parked(self) -> Table:
        """Jobs that wait for a permit."""
        return self._table("job_parked")

    @cached_property
    def buckets(self) -> Table:
        """When the buckets of rates are full again."""
        return self._table("job_buckets")

    @cached_property
    def steps(self) -> Table:
        """Steps, sleeps and signals of jobs, by name."""
        return self._table("job_steps")

    @cached_property
    def workflows(self) -> Table:
        """Named graphs of jobs."""
        return self._table("job_workflows")

    @cached_property
    def batches(self) -> Table:
        """Jobs that are counted together."""
        return self._table("job_batches")

    @cached_property
    def batch_members(self) -> Table:
        """Members of batches that have not ended, and those that are dead."""
        return self._table("job_batch_members")

    @cached_property
    def batch_counts(self) -> Table:
        """How many members batches have, and how they ended."""
        return self._table("job_batch_counts")

    @cached_property
    def logs(self) -> Table:
        """What handlers logged."""
        return self._table("job_logs")

    @cached_property
    def archive(self) -> Table:
        """Jobs that a purge moved out of the way."""
        return self._table("job_archive")

    @cached_property
    def redactions(self) -> Table:
        """The keys that are hidden in what is shown of a job, by its name."""
        return self._table("job_redactions")

    @cached_property
    def throttles(self) -> Table:
        """Failures of clients, counted over a span of time."""
        return self._table("job_throttles")

    @cached_property
    def deaths(self) -> Table:
        """Deaths of jobs that were dead and are no more, by cause, queue and hour."""
        return self._table("job_deaths")

    @cached_property
    def retry_runs(self) -> Table:
        """Retries of a cause of death."""
        return self._table("job_retry_runs")

    @cached_property
    def retry_members(self) -> Table:
        """The jobs of such a retry, in its order."""
        return self._table("job_retry_members")

    @cached_property
    def form_keys(self) -> Table:
        """Forms of the admin pages that were sent."""
        return self._table("job_form_keys")

    @cached_property
    def rekeys(self) -> Table:
        """Runs of ``rekey``."""
        return self._table("job_rekeys")

    @cached_property
    def deploys(self) -> Table:
        """Deploys of applications."""
        return self._table("job_deploys")

    @cached_property
    def alert_rules(self) -> Table:
        """Rules for alerts, as workers declared them last."""
        return self._table("job_alert_rules")

    @cached_property
    def alerts(self) -> Table:
        """Alerts that were raised."""
        return self._table("job_alerts")

    @property
    def schema_name(self) -> str:
        """The unqualified name of the version table."""
        return f"{self.prefix}job_schema"
