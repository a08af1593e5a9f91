"""Columns and indexes of PostgreSQL.

An instant may be ``infinity`` or beyond the year 9999, which Python has no ``datetime`` for: it is read as ``EARLIEST``
or ``LATEST``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import String
from sqlalchemy.types import TypeEngine

from sloppyjobs.storage.dialects.partial_indexes import PartialIndexes
from sloppyjobs.storage.schema.style import EARLIEST, LATEST, ColumnTypes, IndexForm, out_of_range


class PostgresTypes(ColumnTypes):
    """Types of columns."""

    def text(self, length: int) -> TypeEngine[Any]:
        """The collation that sorts byte by byte."""
        return String(length, collation="C")

    def instant_to_driver(self, value: datetime) -> Any:
        """The instant; what is out of range sorts before or after every other."""
        if out_of_range(value):
            return "-infinity" if value <= EARLIEST else "infinity"
        return value.astimezone(UTC)

    def within_range(self, column: str) -> str:
        """Clamped, because drivers refuse what Python cannot hold."""
        low, high = (f"'{bound.isoformat()}'::timestamptz" for bound in (EARLIEST, LATEST))
        return f"CASE WHEN {column} > {high} THEN {high} WHEN {column} < {low} THEN {low} ELSE {column} END"

    def later(self, instant: str, seconds: str) -> str:
        """By an interval."""
        return f"{instant} + {seconds} * interval '1 second'"


class PostgresStyle(PartialIndexes):
    """Form of tables."""

    keyword = "postgresql_where"
    claim_by_instant = True
    events_by_job = True
    # A queue's rows live for seconds. Vacuum by number of changes, not by a share of a table that history has made
    # large. A fill factor of 50 leaves half of each page free, so that closing an attempt, or deciding an edge between
    # jobs, rewrites it in place; and a claim writes a job to the page where it is, and needs to log only what differs.
    table_settings: ClassVar = {
        "jobs": "ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, "
        "autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000, autovacuum_vacuum_cost_delay = 0, "
        "fillfactor = 50)",
        "job_attempts": "ALTER TABLE {table} SET (fillfactor = 50)",
        "job_dependencies": "ALTER TABLE {table} SET (fillfactor = 50)",
        "job_locks": "ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500)",
        "job_stats": "ALTER TABLE {table} SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, "
        "autovacuum_vacuum_threshold = 1000)",
        "job_workers": "ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0, "
        "autovacuum_vacuum_threshold = 500)",
    }

    def partial_index(self, columns: tuple[str, ...], where: str, *, distinct: bool = False) -> IndexForm:
        """Where all keys differ, nobody needs to look for equal ones whenever a page is full."""
        form = super().partial_index(columns, where)
        options = {"postgresql_with": {"deduplicate_items": "off"}} if distinct else {}
        return form._replace(options={**form.options, **options})


TYPES = PostgresTypes()
STYLE = PostgresStyle()
