"""A column is written down once: every form of insert, the claim and the mapping of rows follow from its line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sloppyjobs.domain.model import Attempt, Event, Job, NewJob, Terms
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.dialects.postgres import statements as postgres
from sloppyjobs.storage.dialects.postgres.bulk_part import parts_of
from sloppyjobs.storage.dialects.sqlite import statements as sqlite
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.new_rows import JOB_INSERT, NewRows
from sloppyjobs.storage.schema.columns import (
    ATTEMPT_COLUMNS,
    EVENT_COLUMNS,
    JOB_COLUMNS,
    JobColumn,
    Kind,
    New,
    claim_columns,
    inserted,
    names,
    terms_of,
    told,
)
from sloppyjobs.storage.schema.tables import Tables

NOW = datetime(2030, 1, 2, tzinfo=UTC)
WITHOUT = tuple(column for column in JOB_COLUMNS if column.name != "principal")
WITH = (*WITHOUT, JobColumn("on_behalf_of", rows.JOB_COLUMNS[0].type, to_field="principal", claimed=True))
"""The same list with a column that has another name and stands elsewhere."""


def test_every_column_has_its_field_and_every_field_its_column() -> None:
    answers_only = {"existing", "damage"}
    assert {column.field for column in told(JOB_COLUMNS, Job)} == set(Job.__struct_fields__) - answers_only
    assert {column.field for column in told(ATTEMPT_COLUMNS, Attempt)} == set(Attempt.__struct_fields__)
    assert {column.field for column in told(EVENT_COLUMNS, Event)} == set(Event.__struct_fields__)
    of_terms = {column.new for column in inserted(JOB_COLUMNS) if isinstance(column.new, str)}
    of_key = {"on_conflict", "unique", "unique_for", "expires", "depends_on", "depends_on_any", "waits", "awaited"}
    of_key.add("batch_adder")
    assert of_terms - {"followups", "waiting_for"} | {"run_at", "delay"} | of_key == set(Terms.__struct_fields__)


def read(columns: tuple[JobColumn, ...], **values: Any) -> Job:
    row = [_value(column.name, column.kind, values) for column in told(columns, Job)]
    return rows._job_reader(columns)(row, rows.as_is, False)


def claimed(columns: tuple[JobColumn, ...], **values: Any) -> Job:
    row = [_value(column.name, column.kind, values) for column in claim_columns(columns)]
    return rows._claims_reader(columns)([row], "w", rows.as_is)[0].job


def _value(name: str, kind: Kind, values: dict[str, Any]) -> Any:
    usual: dict[Kind, Any] = {Kind.INSTANT: NOW, Kind.STATUS: "queued", Kind.WHOLE: 3, Kind.NUMBER: 1.5}
    return values.get(name, usual.get(kind, None if kind is not Kind.TEXT else name))


@pytest.mark.parametrize("made", [read, claimed], ids=["job", "claim"])
def test_a_line_in_the_list_is_all_that_reading_needs(made: Any) -> None:
    assert made(JOB_COLUMNS, principal="ada").principal == "ada"
    assert made(WITHOUT).principal is None
    found = made(WITH, on_behalf_of="ada")
    assert (found.principal, found.correlation_id, found.error_frame) == ("ada", "correlation_id", "error_frame")


def test_every_insert_fills_every_column_of_the_list() -> None:
    tables = Tables()
    of_postgres = postgres.statements(tables, "channel")
    of_sqlite, _ = sqlite.insert_jobs("jobs", "events", ("id", "payload", "priority"))
    filled = f"({', '.join(JOB_INSERT)})"
    for statement in (of_postgres.insert_one, of_postgres.insert_in_known, of_sqlite):
        assert filled in statement
    of_terms = tuple(terms_of(JOB_COLUMNS))
    for own, shared in (((), of_terms), (of_terms, ()), (("tags", "run_at", "status"), ("name", "queue"))):
        of_many = postgres.insert_many(of_postgres.insert_many, own, shared)
        columns = of_many.partition("INSERT INTO sloppy_jobs (")[2].partition(")")[0].split(", ")
        decided = {column.name for column in JOB_COLUMNS if isinstance(column.new, New)}
        assert sorted(columns) == sorted(decided | {*own, *shared})


def test_the_tables_and_the_archive_have_the_columns_of_the_lists() -> None:
    tables = Tables()
    assert names(JOB_COLUMNS) == tuple(tables.jobs.c.keys())
    archived = tuple(column.name for column in JOB_COLUMNS if column.archived)
    own = ("archived_at", "history", "ended_as", "restored_as", "restored_at")
    assert (*archived, *own) == tuple(tables.archive.c.keys())
    assert names(ATTEMPT_COLUMNS) == tuple(tables.attempts.c.keys())
    assert names(EVENT_COLUMNS) == tuple(tables.events.c.keys())


def test_the_answer_to_one_and_to_many_is_the_same() -> None:
    terms = Terms("greet", "default", priority=3, timeout=2.5, principal="ada", metadata='{"a":1}')
    new = NewJob("job_1", "{}", terms)
    assert NewRows([new], NOW, timedelta(0)).jobs() == [rows.as_written(new, Status.QUEUED, NOW, NOW)]


@pytest.mark.parametrize("delays", [(None, None), (60.0, 60.0), (60.0, None)], ids=["at once", "alike", "different"])
def test_rows_may_be_dated_after_they_were_made(delays: tuple[float | None, ...]) -> None:
    new = [NewJob(f"job_{delay}", "{}", Terms("greet", "default", delay=delay)) for delay in delays]
    step = timedelta(microseconds=1)
    later = NewRows(new, None, step)
    later.date(NOW, step)
    assert later.jobs() == NewRows(new, NOW, step).jobs()
    assert [job.run_at - job.created_at for job in later.jobs()] == [timedelta(seconds=delay or 0) for delay in delays]


@pytest.mark.parametrize(
    ("number", "sizes"), [(2000, [2000]), (5000, [1000, 4000]), (9001, [1000, 4000, 4000, 1])], ids=str
)
def test_the_first_of_several_statements_is_short(number: int, sizes: list[int]) -> None:
    job = NewJob("job_1", "{}", Terms("greet", "default"))
    assert [len(part) for part in parts_of([job] * number)] == sizes
