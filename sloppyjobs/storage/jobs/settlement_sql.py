"""The statements that settle a batch of attempts, and the rows they take: any mixture of outcomes, one JSON text each.

The update of the jobs is conditional on the fence, so it decides, whether the rows were locked before or not. All
statements go from the given rows by primary key to each row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    Float,
    Integer,
    Subquery,
    Text,
    Update,
    bindparam,
    case,
    func,
    insert,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.types import TypeEngine

from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import FINISHED, Decision, Failure, Status, event_type
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import Prepared
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.tables import Tables

Columns = Mapping[str, TypeEngine[Any]]
Same = Callable[[ColumnElement[Any], ColumnElement[Any]], ColumnElement[bool]]
"""The condition by which a row is found from its given key: ``same_key`` of the dialect."""

SUCCESS: Columns = {"id": Text(), "attempt": Integer(), "owner": Text(), "seconds": Float(), "result": Text()}
"""Successes, which are most, are written by leaner statements."""

_ERRORS: Columns = {"error_code": Text(), "error_type": Text(), "error_message": Text(), "error_frame": Text()}
OTHER: Columns = {
    "id": Text(),
    "attempt": Integer(),
    "owner": Text(),
    "target": Text(),
    "next_run": Instant(),
    "finished": Integer(),
    "extra": Integer(),
    **_ERRORS,
}
"""Jobs whose attempts ended in any other way."""
ENDED: Columns = {
    "id": Text(),
    "attempt": Integer(),
    "seconds": Float(),
    "ended": Text(),
    **_ERRORS,
    "traceback": Text(),
}
"""The attempts of those jobs, apart from these: a traceback is long, and rows are parsed by every statement."""
STEP: Columns = {"id": Text(), "attempt": Integer(), "owner": Text(), "message": Text()}
"""Settlements that all take the same edge: event and statuses are given once."""
EDGE: Columns = {
    "place": Integer(),
    "job_id": Text(),
    "event_type": Text(),
    "from_status": Text(),
    "to_status": Text(),
    "attempt_number": Integer(),
    "worker_id": Text(),
    "actor": Text(),
    "message": Text(),
}
MOVE: Columns = {"id": Text(), "source": Text()}
ID: Columns = {"id": Text()}
START: Columns = {"id": Text(), "counted": Integer(), "target": Text()}
"""Jobs that have waited for others, and how many attempts they have had."""

_ERROR = tuple(_ERRORS)


# Rows


def as_json(rows: Sequence[Any] | Mapping[str, Any]) -> str:
    """The rows as the single value that the statements take as ``given``."""
    return msgspec.json.encode(rows).decode()


def success(one: Settlement) -> tuple[Any, ...]:
    """An attempt that went well, as a row of ``SUCCESS``."""
    return one.job_id, one.attempt, one.worker_id, one.run_seconds, one.decision.result


def other(one: Settlement, now: datetime, to_driver: Callable[[datetime], Any]) -> tuple[Any, ...]:
    """The job of an attempt that ended in any other way, as a row of ``OTHER``."""
    decision = one.decision
    target = decision.path[-1]
    return (
        one.job_id,
        one.attempt,
        one.worker_id,
        target.value,
        to_driver(now + timedelta(seconds=decision.delay)) if decision.retries else None,
        int(target in FINISHED),
        0 if decision.counts else 1,
        *_error(decision.failure),
    )


def ended(one: Settlement) -> tuple[Any, ...]:
    """Such an attempt itself, as a row of ``ENDED``."""
    decision = one.decision
    trace = None if decision.failure is None else decision.failure.traceback
    return one.job_id, one.attempt, one.run_seconds, decision.attempt.value, *_error(decision.failure), trace


def _error(failure: Failure | None) -> tuple[str | None, ...]:
    return (None,) * 4 if failure is None else (failure.code, failure.type, failure.message, failure.frame)


def step(one: Settlement, message: str | None) -> tuple[Any, ...]:
    """A settlement that takes an edge, as a row of ``STEP``."""
    return one.job_id, one.attempt, one.worker_id, message


def _message(decision: Decision) -> str | None:
    return decision.failure.message if decision.failure else decision.message


@lru_cache(maxsize=64)
def edges_of(path: tuple[Status, ...]) -> tuple[tuple[str, str, str], ...]:
    """Event, source and target of each edge."""
    steps = zip((Status.PROCESSING, *path), path, strict=False)
    return tuple((event_type(source, target), source.value, target.value) for source, target in steps)


# Statements


def succeed_jobs(tables: Tables, given: Subquery, same: Same) -> Any:
    """The jobs of ``SUCCESS`` that are still held."""
    jobs, now = tables.jobs, _now()
    return (
        update(jobs)
        .where(_held(tables, given, same))
        .values(
            status=literal_column("'succeeded'"),
            result=given.c.result,
            updated_at=now,
            finished_at=now,
            locked_by=null(),
            locked_until=null(),
            **{name: null() for name in _ERROR},
        )
    )


def settle_jobs(tables: Tables, given: Subquery, same: Same) -> Any:
    """The jobs of ``OTHER`` that are still held."""
    jobs, now = tables.jobs, _now()
    return (
        update(jobs)
        .where(_held(tables, given, same))
        .values(
            status=given.c.target,
            # Null leaves the run time alone: a job that comes back at once keeps its place in the order.
            run_at=func.coalesce(given.c.next_run, jobs.c.run_at),
            updated_at=now,
            finished_at=case((given.c.finished == literal_column("1"), now), else_=null()),
            locked_by=null(),
            locked_until=null(),
            max_attempts=jobs.c.max_attempts + given.c.extra,
            **{name: given.c[name] for name in _ERROR},
        )
    )


def close_successes(tables: Tables, given: Subquery, same: Same) -> Any:
    """The attempts of ``SUCCESS``."""
    values = {"status": literal_column("'succeeded'"), "finished_at": _now(), "run_seconds": given.c.seconds}
    return update(tables.attempts).where(_attempt(tables, given, same)).values(values)


def close_attempts(tables: Tables, given: Subquery, same: Same) -> Any:
    """The attempts of ``ENDED``."""
    values = {"status": given.c.ended, "finished_at": _now(), "run_seconds": given.c.seconds}
    values |= {name: given.c[name] for name in (*_ERROR, "traceback")}
    return update(tables.attempts).where(_attempt(tables, given, same)).values(values)


def record_successes(tables: Tables, given: Subquery, _same: Same) -> Any:
    """The events of ``SUCCESS``."""
    word: ColumnElement[str] = literal_column("'succeeded'")
    columns = {
        "job_id": given.c.id,
        "event_type": word,
        "from_status": literal_column("'processing'"),
        "to_status": word,
        "attempt_number": given.c.attempt,
        "worker_id": given.c.owner,
        "created_at": _now(),
    }
    return insert(tables.events).from_select(list(columns), select(*columns.values()))


def record_steps(tables: Tables, given: Subquery, _same: Same) -> Any:
    """The events of ``STEP``."""
    columns = {
        "job_id": given.c.id,
        **{name: bindparam(name, type_=Text()) for name in ("event_type", "from_status", "to_status")},
        "attempt_number": given.c.attempt,
        "worker_id": given.c.owner,
        "message": given.c.message,
        "created_at": _now(),
    }
    return insert(tables.events).from_select(list(columns), select(*columns.values()))


def record_edges(tables: Tables, given: Subquery, _same: Same) -> Any:
    """The events of ``EDGE``, numbered in the order of their places."""
    names = [name for name in EDGE if name != "place"]
    values = select(*(given.c[name] for name in names), _now()).order_by(given.c.place)
    return insert(tables.events).from_select([*names, "created_at"], values)


def promote_jobs(tables: Tables, given: Subquery, same: Same) -> Any:
    """The jobs of ``MOVE`` that are still where they were, and due."""
    jobs = tables.jobs
    due = (same(jobs.c.id, given.c.id), _status(tables) == given.c.source, jobs.c.run_at <= _now())
    return update(jobs).where(*due).values(status=literal_column("'queued'"), updated_at=_now())


def record_promotions(tables: Tables, given: Subquery, _same: Same) -> Any:
    """The events of ``MOVE``: jobs that are due."""
    columns = {
        "job_id": given.c.id,
        "event_type": literal_column("'due'"),
        "from_status": given.c.source,
        "to_status": literal_column("'queued'"),
        "created_at": _now(),
    }
    return insert(tables.events).from_select(list(columns), select(*columns.values()))


def start_jobs(tables: Tables, given: Subquery, same: Same) -> Any:
    """The jobs of ``START`` that still wait."""
    jobs = tables.jobs
    waits = (_status(tables) == literal_column("'waiting'"), jobs.c.attempt_count == given.c.counted)
    values = {"status": given.c.target, "updated_at": _now(), "waiting_for": null()}
    return update(jobs).where(same(jobs.c.id, given.c.id), *waits).values(values)


def record_unblocked(tables: Tables, given: Subquery, _same: Same) -> Any:
    """The events of ``ID``: jobs that need not wait any longer."""
    columns = {
        "job_id": given.c.id,
        "event_type": literal_column("'unblocked'"),
        "from_status": literal_column("'waiting'"),
        "to_status": bindparam("to_status", type_=Text()),
        "created_at": _now(),
    }
    return insert(tables.events).from_select(list(columns), select(*columns.values()))


_STATEMENTS: Mapping[Callable[[Tables, Subquery, Same], Any], Columns] = {
    succeed_jobs: SUCCESS,
    close_successes: SUCCESS,
    record_successes: SUCCESS,
    settle_jobs: OTHER,
    close_attempts: ENDED,
    record_steps: STEP,
    record_edges: EDGE,
    promote_jobs: MOVE,
    record_promotions: MOVE,
    start_jobs: START,
    record_unblocked: ID,
}


def prepared(database: Database, build: Callable[[Tables, Subquery, Same], Any]) -> Prepared:
    """One of the statements above, compiled once; its rows are the JSON value ``given``."""
    dialect = database.dialect

    def built() -> Any:
        statement = build(database.tables, dialect.given_rows("given", _STATEMENTS[build]), dialect.same_key)
        return dialect.from_given(statement) if isinstance(statement, Update) else statement

    return database.prepared(build.__name__, built)


def write_paths(database: Database, cursor: Any, settled: Sequence[Settlement], moment: Any) -> None:
    """Write an event for each edge of each settlement's path; the message goes with the first."""
    by_path: dict[tuple[Status, ...], list[Settlement]] = {}
    for one in settled:
        by_path.setdefault(one.decision.path, []).append(one)
    statement = prepared(database, record_steps)
    for path, group in by_path.items():
        rows = [step(one, _message(one.decision)) for one in group]
        # Edge by edge: what a statement inserts is numbered in any order, and a job's events must be in theirs.
        for event, source, target in edges_of(path):
            edge = {"event_type": event, "from_status": source, "to_status": target}
            statement.run(cursor, {"given": as_json(rows), "now": moment, **edge})
            rows = [step(one, None) for one in group]


def write_edges(database: Database, cursor: Any, rows: Sequence[tuple[Any, ...]], moment: Any) -> None:
    """Write an event for each of these rows of ``EDGE``, which get their places here."""
    placed = [(place, *row) for place, row in enumerate(rows)]
    prepared(database, record_edges).run(cursor, {"given": as_json(placed), "now": moment})


def _held(tables: Tables, given: Subquery, same: Same) -> ColumnElement[bool]:
    c = tables.jobs.c
    owned = c.locked_by.is_not_distinct_from(given.c.owner)
    held = _status(tables) == literal_column("'processing'")
    return same(c.id, given.c.id) & held & owned & (c.attempt_count == given.c.attempt)


def _attempt(tables: Tables, given: Subquery, same: Same) -> ColumnElement[bool]:
    c = tables.attempts.c
    return same(c.job_id, given.c.id) & (c.attempt_number == given.c.attempt)


def _status(tables: Tables) -> ColumnElement[str]:
    # An expression, not the column: the partial indexes must look unusable, for the way is by primary key.
    return func.coalesce(tables.jobs.c.status, literal_column("''"))


def _now() -> Any:
    return bindparam("now", type_=Instant())
