"""The set-based statements of PostgreSQL as text, and the values they take.

Materialized CTEs are fences: without them the planner may lock more rows than it updates. Status words stand in the
text, so that generic plans can use the partial indexes. The clock is read once per statement, as a scalar subquery,
because a volatile function in a condition would rule the index out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy.dialects import postgresql

from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.states import FINISHED
from sloppyjobs.storage.dialects.postgres.arrays import array_of
from sloppyjobs.storage.dialects.postgres.batch_statements import (
    ADD_MEMBERS,
    ADMIT,
    COUNT_MEMBERS,
    OVER_BATCHES,
    with_members,
)
from sloppyjobs.storage.dialects.postgres.claim_statements import CLAIM, CLAIM_LIMITED
from sloppyjobs.storage.dialects.postgres.graph_statements import NUMBERS
from sloppyjobs.storage.dialects.postgres.linked_rows import INSERT_KEYS, INSERT_TAGS, TAKEN_BUSINESS_KEY
from sloppyjobs.storage.dialects.postgres.permit_statements import LINES
from sloppyjobs.storage.dialects.postgres.settle_statements import Hanging, SettleStatements, settle_statements
from sloppyjobs.storage.dialects.postgres.statement_clock import CLOCK
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.new_rows import JOB_INSERT
from sloppyjobs.storage.schema.columns import JOB_COLUMNS, JobColumn, Kind, New, inserted
from sloppyjobs.storage.schema.tables import Tables

# Only one plan is right for these statements, whatever the statistics say: from the given rows, through an index, to
# each row. It is made once and kept. Compiling it to machine code would take a hundred times as long as running it.
PLAN_BY_INDEX = (
    "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), "
    "set_config('enable_mergejoin', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true), "
    "set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true)"
)
CLOCK_OF_INSERT = "SELECT clock_timestamp(), set_config('plan_cache_mode', 'force_generic_plan', true)"
"""What time it is. To plan an insert for the very values that are given takes as long as to insert dozens of jobs."""


class Statements(NamedTuple):
    """The texts for one installation."""

    insert_one: str
    insert_in_known: str
    """As ``insert_one``, for a queue that most likely has its row; the last column says whether it has."""
    insert_many: str
    """With the columns in which the jobs differ left open, for ``insert_many``."""
    insert_members: str
    """As ``insert_many``, for jobs that are added to a batch."""
    taken_key: str
    taken_business_key: str
    insert_keys: str
    insert_tags: str
    settle: Mapping[Hanging, SettleStatements]
    over_batches: str
    add_members: str
    admit: str
    count_members: str
    promote: str
    claim: str
    claim_limited: str
    """The same, with permits for jobs whose limits do not bind."""
    lines: str


def statements(tables: Tables, channel: str | None) -> Statements:
    """The statements over these tables; ``channel`` is where new jobs are announced, if anywhere."""
    format_table = postgresql.dialect().identifier_preparer.format_table  # type: ignore[no-untyped-call]
    names = {
        "jobs": format_table(tables.jobs),
        "attempts": format_table(tables.attempts),
        "events": format_table(tables.events),
        "queues": format_table(tables.queues),
        "stats": format_table(tables.stats),
        "keys": format_table(tables.keys),
        "tags": format_table(tables.tags),
        "permit": str(int(Followup.PERMIT)),
        "limits": format_table(tables.limits),
        "permits": format_table(tables.permits),
        "parked": format_table(tables.parked),
        "buckets": format_table(tables.buckets),
        "no_claim": ", ".join("NULL" for _ in rows.CLAIM_FIELDS),
        "batches": format_table(tables.batches),
        "members": format_table(tables.batch_members),
        "batch_counts": format_table(tables.batch_counts),
        "finished": ", ".join(f"'{one.value}'" for one in sorted(FINISHED)),
        "claim_fields": ", ".join(rows.CLAIM_FIELDS),
        "j_claim_fields": ", ".join(f"j.{name}" for name in rows.CLAIM_FIELDS),
        "job_insert": ", ".join(JOB_INSERT),
        "one_job": ", ".join(_ONE_JOB.values()),
        "dependencies": format_table(tables.dependencies),
        **NUMBERS,
    }
    quoted = "NULL" if channel is None else "'" + channel.replace("'", "''") + "'"
    names["notify"] = "NULL" if channel is None else f"pg_notify({quoted}, '')"
    announce = "NULL" if channel is None else f"CASE WHEN {_CONCERNS_WORKERS} THEN pg_notify({quoted}, queue) END"
    announce_many = "SELECT 1" if channel is None else f"SELECT pg_notify({quoted}, '')"
    left_open = {name: f"{{{name}}}" for name in ("columns", "values", "own", "order", "status", "own_status")}
    return Statements(
        insert_one=_INSERT_ONE.format(seen=_SEEN.format(**names), known="true", announce=announce, **names),
        insert_in_known=_INSERT_ONE.format(seen="", known=_KNOWN.format(**names), announce=announce, **names),
        insert_many=_INSERT_MANY.format(announce=announce_many, **left_open, **names),
        insert_members=with_members(_INSERT_MANY).format(announce=announce_many, **left_open, **names),
        taken_key=_TAKEN_KEY.format(**names),
        taken_business_key=TAKEN_BUSINESS_KEY.format(**names),
        insert_keys=INSERT_KEYS.format(**names),
        insert_tags=INSERT_TAGS.format(**names),
        settle=settle_statements(names),
        over_batches=OVER_BATCHES.format(**names),
        add_members=ADD_MEMBERS.format(**names),
        admit=ADMIT.format(**names),
        count_members=COUNT_MEMBERS.format(**names),
        promote=_PROMOTE.format(**names),
        claim=CLAIM.format(**names),
        claim_limited=CLAIM_LIMITED.format(**names),
        lines=LINES.format(**names),
    )


@lru_cache(maxsize=500)
def insert_many(statement: str, own: tuple[str, ...], shared: tuple[str, ...]) -> str:
    """The insert of jobs that differ in the columns ``own``, each of which is given as an array named like it.

    ``shared`` are the other columns that have a value. Without ``status`` and ``run_at``, the jobs are due at once.
    """
    lists = {name: f", unnest(%({name})s::{array_of(_KIND[name]).sql}) AS {name}" for name in own}
    given = {name: _ONE_JOB[name] for name in shared} | _OF_MANY | {name: name for name in own}
    if "status" in shared:
        given["status"] = "%(status)s"
    return statement.format(
        columns=", ".join(given),
        values=", ".join(given.values()),
        own="".join(lists.values()),
        # Two calls that take the same keys wait for each other in one direction.
        order=" ORDER BY idempotency_key" if "idempotency_key" in lists else "",
        status=given["status"],
        own_status=lists.get("status", ""),
    )


def _parameter(column: JobColumn) -> str:
    cast = {Kind.NUMBER: "::float8", Kind.INSTANT: "::timestamptz"}.get(column.kind, "")
    return f"%({column.name})s{cast}"


_KIND = {column.name: column.kind for column in JOB_COLUMNS}
_DECIDED: dict[str | New | None, str] = {
    New.STATUS: "CASE WHEN run_at <= now THEN 'queued' ELSE 'scheduled' END",
    New.RUN_AT: "run_at",
    New.NOW: "now",
    New.ZERO: "0",
}
_DECIDED_OF_MANY: dict[str | New | None, str] = {
    New.ID: "id",
    New.PAYLOAD: "payload",
    New.STATUS: "'queued'",
    New.RUN_AT: "now",
    New.NOW: "now",
    New.ZERO: "0",
}
_NEW = {column.name: column.new for column in JOB_COLUMNS}
_ONE_JOB = {
    column.name: _DECIDED[column.new] if column.new in _DECIDED else _parameter(column)
    for column in inserted(JOB_COLUMNS)
}
_OF_MANY = {name: _DECIDED_OF_MANY[new] for name, new in _NEW.items() if new in _DECIDED_OF_MANY}

# What is due later is found by polling, which is too late where it is due sooner than that.
_CONCERNS_WORKERS = "status = 'queued' OR status = 'scheduled' AND run_at < created_at + interval '1 minute'"
_INSERT_ONE = (
    "WITH "
    + CLOCK
    + """,
timed AS MATERIALIZED (
  SELECT now, coalesce(%(run_at)s::timestamptz, now + make_interval(secs => %(delay)s::float8)) AS run_at FROM clock
),
job AS (
  INSERT INTO {jobs} ({job_insert})
  SELECT {one_job}
  FROM timed
  ON CONFLICT DO NOTHING
  RETURNING id, queue, status, run_at, created_at
),
event AS (
  INSERT INTO {events} (job_id, event_type, to_status, created_at) SELECT id, 'created', status, created_at FROM job
){seen}
SELECT status, run_at, created_at, {known}, {announce} FROM job
"""
)
_SEEN = """,
seen AS (
  INSERT INTO {queues} (name, created_at) SELECT queue, created_at FROM job
  WHERE NOT EXISTS (SELECT FROM {queues} q WHERE q.name = %(queue)s)
  ON CONFLICT DO NOTHING
)"""
_KNOWN = "EXISTS (SELECT FROM {queues} q WHERE q.name = %(queue)s)"

# Arrays side by side in the list, and not in FROM, where each function's rows would be stored first. Both inserts take
# them apart: to keep the rows of one for the other costs more.
_INSERT_MANY = """
WITH job AS (
  INSERT INTO {jobs} ({columns}) SELECT {values}
  FROM (SELECT unnest(%(id)s::text[]) AS id, unnest(%(payload)s::text[]) AS payload,
               unnest(%(now)s::timestamptz[]) AS now{own}) new{order}
),
event AS (
  INSERT INTO {events} (job_id, event_type, to_status, created_at) SELECT id, 'created', {status}, now
  FROM (SELECT unnest(%(id)s::text[]) AS id, unnest(%(now)s::timestamptz[]) AS now{own_status}) new
),
seen AS (
  INSERT INTO {queues} (name, created_at) SELECT seen.name, (%(now)s::timestamptz[])[1]
  FROM unnest(%(queues)s::text[]) AS seen(name)
  WHERE NOT EXISTS (SELECT FROM {queues} q WHERE q.name = seen.name)
  ON CONFLICT DO NOTHING
)
{announce}
"""

# A join, and not = ANY, whose plan may compare each row with each key.
_TAKEN_KEY = """
SELECT 1 FROM unnest(%(keys)s::text[]) AS given(key)
WHERE EXISTS (SELECT FROM {jobs} j WHERE j.idempotency_key = given.key) LIMIT 1
"""

# Jobs on which something hangs are left, and counted; a batch does not mind.
_PROMOTE = (
    "WITH "
    + CLOCK
    + """,
due AS MATERIALIZED (
  SELECT id, status, followups FROM {jobs}
  WHERE status IN ('scheduled', 'retrying') AND run_at <= (SELECT now FROM clock)
  ORDER BY run_at, id LIMIT %(most)s FOR UPDATE SKIP LOCKED
),
queued AS (
  UPDATE {jobs} j SET status = 'queued', updated_at = clock.now
  FROM due, clock WHERE j.id = ANY (ARRAY[due.id]) AND coalesce(due.followups, 4) = 4
  RETURNING j.id, due.status AS source
),
history AS (
  INSERT INTO {events} (job_id, event_type, from_status, to_status, created_at)
  SELECT id, 'due', source, 'queued', clock.now FROM queued, clock
)
SELECT (SELECT count(*) FROM queued), (SELECT count(*) FROM due WHERE followups <> 4)
"""
)


def array_text(words: Sequence[str]) -> str:
    """An array of ids or states, which need no quoting: the cheapest way to pass them."""
    return "{" + ",".join(words) + "}"
