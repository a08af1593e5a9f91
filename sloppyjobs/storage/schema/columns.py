"""The columns of jobs, attempts and events, each written down once.

The tables, the archive, every form of insert, the fields of a claim and the mapping of rows to values derive from these
lists. A new column of jobs is a line in ``JOB_COLUMNS``, a field of ``Job`` and of ``Terms``, and a migration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum, auto
from functools import cached_property
from typing import Any

from sqlalchemy import Column, Float, Integer
from sqlalchemy.types import TypeEngine

from sloppyjobs.domain.model import Job
from sloppyjobs.storage.schema.column_types import ByteText, ErrorCode, KeyText, LongText, Number, RowNumber, Word
from sloppyjobs.storage.schema.instants import Instant


class Kind(Enum):
    """What a column holds, and so how it is read."""

    TEXT = auto()
    WHOLE = auto()
    NUMBER = auto()
    INSTANT = auto()
    STATUS = auto()
    OBJECT = auto()
    """A JSON object as text; a row without one reads as an empty one."""
    JSON = auto()
    """Any JSON as text."""
    WORDS = auto()
    """A JSON array of texts as text; a row without one reads as an empty one."""


class New(Enum):
    """What the insert itself decides of a new job's row."""

    ID = auto()
    PAYLOAD = auto()
    STATUS = auto()
    RUN_AT = auto()
    NOW = auto()
    ZERO = auto()


_KINDS: dict[type, Kind] = {Integer: Kind.WHOLE, Float: Kind.NUMBER, Instant: Kind.INSTANT}


@dataclass(frozen=True)
class TableColumn:
    """A column of a table, and the field of the value that its rows become; ``told=False`` where there is none."""

    name: str
    type: Any
    _: KW_ONLY
    as_kind: Kind | None = None
    required: bool = False
    to_field: str | None = None
    told: bool = True

    @cached_property
    def kind(self) -> Kind:
        """What it holds: as the type says, unless something else was said."""
        made = self.type if isinstance(self.type, type) else type(self.type)
        return self.as_kind or _KINDS.get(made, Kind.TEXT)

    @property
    def field(self) -> str:
        """The field of the value that the column fills."""
        return self.to_field or self.name

    def build(self) -> Column[Any]:
        """The column for a table."""
        kind: type[TypeEngine[Any]] | TypeEngine[Any] = self.type
        return Column(self.name, kind, nullable=not self.required)


@dataclass(frozen=True)
class JobColumn(TableColumn):
    """A column of the jobs' table.

    ``new`` is where an insert takes its value from: a field of ``Terms`` by its name, or what the insert decides;
    without it the row of a new job has NULL there. ``claimed`` columns are read by a claim; of the others a claim knows
    the value, or that there is none. The archive has a column for each that is ``archived``.
    """

    _: KW_ONLY
    new: str | New | None = None
    claimed: bool = False
    archived: bool = True


JOB_COLUMNS = (
    JobColumn("id", ByteText, required=True, new=New.ID, claimed=True),
    JobColumn("name", ByteText, required=True, new="name", claimed=True),
    JobColumn("queue", ByteText, required=True, new="queue", claimed=True),
    JobColumn("status", Word, as_kind=Kind.STATUS, required=True, new=New.STATUS),
    JobColumn("priority", Integer, required=True, new="priority", claimed=True),
    JobColumn("run_at", Instant, required=True, new=New.RUN_AT, claimed=True),
    JobColumn("created_at", Instant, required=True, new=New.NOW, claimed=True),
    JobColumn("updated_at", Instant, required=True, new=New.NOW, claimed=True),
    JobColumn("attempt_count", Integer, required=True, new=New.ZERO, claimed=True),
    JobColumn("max_attempts", Integer, required=True, new="max_attempts", claimed=True),
    JobColumn("timeout_seconds", Number, to_field="timeout", new="timeout", claimed=True),
    JobColumn("locked_by", ByteText),
    JobColumn("locked_until", Instant, claimed=True),
    JobColumn("idempotency_key", KeyText, new="idempotency_key", claimed=True),
    JobColumn("correlation_id", KeyText, new="correlation_id", claimed=True),
    JobColumn("schedule_id", ByteText, new="schedule_id", claimed=True),
    JobColumn("occurrence_at", Instant, new="occurrence_at", claimed=True),
    JobColumn("principal", KeyText, new="principal", claimed=True),
    JobColumn("payload", LongText, required=True, told=False, new=New.PAYLOAD, claimed=True),
    JobColumn("retry_policy", LongText, told=False, new="retry_policy", claimed=True),
    JobColumn("metadata", LongText, as_kind=Kind.OBJECT, new="metadata", claimed=True),
    JobColumn("result", LongText, as_kind=Kind.JSON),
    JobColumn("progress_percent", Number, to_field="progress"),
    JobColumn("progress_message", LongText),
    JobColumn("error_code", ErrorCode, claimed=True),
    JobColumn("error_type", KeyText, claimed=True),
    JobColumn("error_frame", KeyText, claimed=True),
    JobColumn("error_message", LongText, claimed=True),
    JobColumn("paused_from", Word, as_kind=Kind.STATUS),
    JobColumn("finished_at", Instant),
    JobColumn("progress_fields", LongText, as_kind=Kind.OBJECT),
    JobColumn("followups", Integer, told=False, new="followups", claimed=True),
    JobColumn("business_key", KeyText, new="business_key", claimed=True),
    JobColumn("superseded_by", ByteText),
    JobColumn("supersedes", ByteText, new="supersedes"),
    JobColumn("expires_at", Instant, new="expires_at", claimed=True),
    JobColumn("tags", LongText, as_kind=Kind.WORDS, new="tags", claimed=True),
    JobColumn("waiting_for", Word, new="waiting_for"),
    JobColumn("workflow_id", ByteText, new="workflow_id", claimed=True),
    JobColumn("batch_id", ByteText, new="batch_id", claimed=True),
    JobColumn("resource", ByteText, new="resource", claimed=True),
    JobColumn("partition_key", ByteText, new="partition_key", claimed=True),
    JobColumn("payload_version", Integer, new="payload_version", claimed=True),
    JobColumn("base_priority", Integer),
)

ATTEMPT_COLUMNS = (
    TableColumn("job_id", ByteText, required=True),
    TableColumn("attempt_number", Integer, required=True),
    TableColumn("worker_id", ByteText, required=True),
    TableColumn("status", Word, as_kind=Kind.STATUS, required=True),
    TableColumn("started_at", Instant, required=True),
    TableColumn("finished_at", Instant),
    TableColumn("run_seconds", Number, to_field="duration"),
    TableColumn("error_code", ErrorCode),
    TableColumn("error_type", KeyText),
    TableColumn("error_frame", KeyText),
    TableColumn("error_message", LongText),
    TableColumn("traceback", LongText),
)

EVENT_COLUMNS = (
    TableColumn("id", RowNumber, as_kind=Kind.WHOLE, required=True),
    TableColumn("job_id", ByteText, required=True),
    TableColumn("event_type", Word, required=True),
    TableColumn("from_status", Word, as_kind=Kind.STATUS),
    TableColumn("to_status", Word, as_kind=Kind.STATUS, required=True),
    TableColumn("attempt_number", Integer),
    TableColumn("worker_id", ByteText),
    TableColumn("actor", KeyText),
    TableColumn("message", LongText),
    TableColumn("created_at", Instant, required=True),
)


def told(columns: Iterable[TableColumn], value: Any) -> tuple[TableColumn, ...]:
    """The columns that a value is made of, in the order of its fields."""
    by_field = {column.field: column for column in columns if column.told}
    return tuple(by_field[name] for name in value.__struct_fields__ if name in by_field)


def names(columns: Iterable[TableColumn]) -> tuple[str, ...]:
    """Their names."""
    return tuple(column.name for column in columns)


def claim_columns(columns: Sequence[JobColumn]) -> tuple[TableColumn, ...]:
    """The columns that a claim reads: those of the job first, then those that only its handler needs."""
    claimed = {column.name for column in columns if column.claimed}
    of_job = [column for column in told(columns, Job) if column.name in claimed]
    return (*of_job, *(column for column in columns if column.claimed and not column.told))


def inserted(columns: Sequence[JobColumn]) -> tuple[JobColumn, ...]:
    """The columns that an insert fills."""
    return tuple(column for column in columns if column.new is not None)


def terms_of(columns: Sequence[JobColumn]) -> dict[str, str]:
    """The columns that terms fill, and the field of ``Terms`` that fills each."""
    return {column.name: column.new for column in columns if isinstance(column.new, str)}
