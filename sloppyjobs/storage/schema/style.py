"""How one kind of database makes columns, keys and indexes.

A dialect overrides what is different there. What is not overridden works on every database, if not as fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple

from sqlalchemy import BigInteger, DateTime, Float, String, Text
from sqlalchemy.exc import CompileError
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from sloppyjobs.domain.states import FINISHED, Status

# Some days inside of what Python can hold, because drivers answer in the session's zone.
EARLIEST = datetime(1, 1, 3, tzinfo=UTC)
LATEST = datetime(9999, 12, 29, tzinfo=UTC)


def out_of_range(instant: datetime) -> bool:
    """Whether the instant stands for a stored value that Python has no ``datetime`` for."""
    return not EARLIEST < instant < LATEST


def to_text(instant: datetime) -> str:
    """An aware instant as text of one fixed width, which sorts as instants do."""
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def from_text(text: str) -> datetime:
    """The instant in an ISO 8601 text, in UTC; shorter fractions, as other tools write them, are read too."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


def nearest(text: str) -> datetime:
    """The instant in a text; ``EARLIEST`` or ``LATEST`` for any other text, by how it sorts."""
    try:
        return from_text(text)
    except (ValueError, OverflowError):
        return LATEST if text > "9" else EARLIEST


class ColumnTypes:
    """The types of columns, and how instants are stored."""

    def text(self, length: int) -> TypeEngine[Any]:
        """Text that sorts byte by byte, so that a cursor means the same on every database."""
        return String(length)

    def short_text(self, length: int) -> TypeEngine[Any]:
        """Text that nothing is sorted by."""
        return String(length)

    def long_text(self) -> TypeEngine[Any]:
        """Text of any length."""
        return Text()

    def number(self) -> TypeEngine[Any]:
        """A number with fractions, in double precision."""
        return Float()

    def row_number(self) -> TypeEngine[Any]:
        """A number that the database gives to each new row."""
        return BigInteger()

    def instant(self) -> TypeEngine[Any]:
        """A point in time, to the microsecond."""
        return DateTime(timezone=True)

    def instant_to_driver(self, value: datetime) -> Any:
        """What the driver is given for an aware instant."""
        return value.astimezone(UTC)

    def instant_from_driver(self, value: Any) -> datetime:
        """What the driver gave, as an aware instant; ``EARLIEST`` or ``LATEST`` for what Python cannot hold."""
        if isinstance(value, str):
            return nearest(value)
        if not isinstance(value, datetime):
            return LATEST
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)

    def within_range(self, column: str) -> str:
        """SQL for a column of instants that the driver can read, whatever is stored."""
        return column

    def later(self, instant: str, seconds: str) -> str:
        """SQL for an instant and a number of seconds after it; there is no common form."""
        raise CompileError(f"this database has no form for {instant} and {seconds} s")


class IndexForm(NamedTuple):
    """An index as a database makes it: its columns, such as ``"priority DESC"``, and options for ``Index``."""

    columns: tuple[str, ...]
    options: Mapping[str, Any] = {}


class TableStyle:
    """The form of tables, and the predicates by which queries reach their indexes."""

    claim_by_instant: ClassVar[bool] = False
    """Whether the instant of creation alone orders the jobs of a lane, so that the claim index needs no id."""
    events_by_job: ClassVar[bool] = False
    """Whether one index serves as the key of events and for reading a job's history."""
    listed_status: ClassVar[str] = "status"
    """The status in the predicates of the indexes of lists; queries that mean one of these repeat its predicate."""
    members_of_workflow: ClassVar[tuple[str, ...]] = ("workflow_id", "status", "id")
    """The columns of the index of the members of workflows."""
    leases_listed: ClassVar[bool] = False
    """Whether the index of lists serves to find leases that have ended, too."""
    table_settings: ClassVar[Mapping[str, str]] = {}
    """Statements that follow the creation of a table, by its name without prefix; ``{table}`` is its full name."""
    table_options: ClassVar[Mapping[str, str]] = {}
    """Options of every table, under the keywords that SQLAlchemy has for them."""
    by_key_options: ClassVar[Mapping[str, Any]] = {}
    """Those of tables that are kept in the order of their primary key, where that is not the database's own way."""
    long_key: ClassVar[Mapping[str, Any]] = {}
    """Options of primary keys that several texts make long."""

    def partial_index(
        self,
        columns: tuple[str, ...],
        where: str,  # noqa: ARG002
        *,
        distinct: bool = False,  # noqa: ARG002
    ) -> IndexForm | None:
        """An index over the rows that meet ``where``; over all rows where there are no such indexes.

        ``distinct``: no two rows have the same key. None where another index serves the same queries.
        """
        return IndexForm(columns)

    def own_columns(self, table: str) -> tuple[SchemaItem, ...]:  # noqa: ARG002
        """Columns, or conditions on columns, that only this database needs, such as generated ones which replace a
        predicate of an index."""
        return ()

    def is_false(self, column: str) -> str:
        """The condition that a column of booleans is false."""
        return f"NOT {column}"

    def status_in(self, *statuses: str) -> str:
        """The condition that jobs have one of these statuses; predicates of indexes and the queries that they serve."""
        words = ", ".join(f"'{status}'" for status in statuses)
        return f"status = {words}" if len(statuses) == 1 else f"status IN ({words})"

    def _ended_members(self) -> str:
        return f"batch_id IS NOT NULL AND {self.status_in(*sorted(FINISHED))}"

    def in_list(self, status: Status) -> str:
        """The condition by which jobs of a status are found in the order of their creation."""
        if status is Status.PROCESSING:
            return self.status_in("processing")
        return f"status = '{status.value}' AND {self.queued_list if status is Status.QUEUED else self.settled_list}"

    @property
    def queued_list(self) -> str:
        """What the list of queued jobs holds."""
        return f"{self.listed_status} = 'queued'"

    @property
    def settled_list(self) -> str:
        """What the list of all jobs that neither wait for a worker nor run holds."""
        return f"{self.listed_status} NOT IN ('queued', 'processing')"

    @property
    def ended_members(self) -> str | None:
        """What the index of members of batches that have ended holds; None where it holds all members."""
        return None

    @property
    def enabled(self) -> str:
        """Which schedules fire; queries repeat it, so that the partial indexes serve them."""
        return f"{self.is_false('paused')} AND vanished_at IS NULL"


COMMON_TYPES = ColumnTypes()
COMMON_STYLE = TableStyle()
