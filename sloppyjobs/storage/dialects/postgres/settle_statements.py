"""The statements that settle a batch of attempts, as text: one for each kind of thing that hangs on their jobs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from sloppyjobs.domain.followups import Followup
from sloppyjobs.storage.dialects.postgres.batch_statements import of_members
from sloppyjobs.storage.dialects.postgres.graph_statements import SECOND_LOOK, of_graphs
from sloppyjobs.storage.dialects.postgres.permit_statements import of_limited
from sloppyjobs.storage.dialects.postgres.statement_clock import CLOCK


class Hanging(IntEnum):
    """What hangs on jobs that are settled by statements of their own."""

    NOTHING = 0
    BATCH = 1
    GRAPH = 2
    """Jobs that wait for this one, or for which it has waited."""
    LIMIT = 3
    BATCH_AND_LIMIT = 4


class SettleStatements(NamedTuple):
    """The settlement of jobs on which the same kind of thing hangs. Each answers as that of plain jobs does."""

    successes: str
    others: str
    then: tuple[str, ...] = ()
    """What follows in the same transaction, with the same values; its answer is not looked at."""


def settle_statements(names: Mapping[str, str]) -> dict[Hanging, SettleStatements]:
    """The statements over the tables of these names."""
    plain = SettleStatements(_SETTLE_SUCCESSES, _SETTLE_OTHERS)
    members = SettleStatements(
        of_members(_SETTLE_SUCCESSES, successes=True), of_members(_SETTLE_OTHERS, successes=False)
    )
    templates = {
        Hanging.NOTHING: plain,
        Hanging.BATCH: members,
        Hanging.LIMIT: SettleStatements(
            of_limited(plain.successes, Followup(0)), of_limited(plain.others, Followup(0))
        ),
        Hanging.BATCH_AND_LIMIT: SettleStatements(
            of_limited(members.successes, Followup.BATCH), of_limited(members.others, Followup.BATCH)
        ),
        Hanging.GRAPH: SettleStatements(
            of_graphs(_SETTLE_SUCCESSES, successes=True),
            of_graphs(_SETTLE_OTHERS, successes=False),
            (f"WITH {CLOCK},{SECOND_LOOK}",),
        ),
    }
    return {
        hanging: SettleStatements(
            one.successes.format(**names),
            one.others.format(**names),
            tuple(following.format(**names) for following in one.then),
        )
        for hanging, one in templates.items()
    }


_SETTLE_SUCCESSES = (
    "WITH "
    + CLOCK
    + """,
settled AS (
  UPDATE {jobs} j
  SET status = 'succeeded', result = given.result, updated_at = clock.now, finished_at = clock.now, locked_by = NULL,
      locked_until = NULL, error_code = NULL, error_type = NULL, error_message = NULL, error_frame = NULL
  -- Side by side in the list, and not in FROM, where each function's rows would be stored first.
  FROM (SELECT unnest(%(ids)s::text[]) AS id, unnest(%(attempts)s::int[]) AS attempt,
               unnest(%(microseconds)s::int8[]) AS microseconds, unnest(%(results)s::text[]) AS result) given, clock
  -- An expression, not the column: the index of running jobs must look unusable, for the way is by primary key.
  -- And = ANY, not =, for which a plan made for a small table scans the whole primary key.
  WHERE j.id = ANY (ARRAY[given.id]) AND coalesce(j.status, '') = 'processing' AND j.locked_by = %(worker)s
    AND j.attempt_count = given.attempt AND j.followups IS NULL
  RETURNING j.id, j.queue, j.name, given.attempt, given.microseconds / 1e6::float8 AS seconds
),
closed AS (
  UPDATE {attempts} a SET status = 'succeeded', finished_at = clock.now, run_seconds = settled.seconds
  FROM settled, clock WHERE a.job_id = ANY (ARRAY[settled.id]) AND a.attempt_number = settled.attempt
),
history AS (
  INSERT INTO {events} (job_id, event_type, from_status, to_status, attempt_number, worker_id, created_at)
  SELECT id, 'succeeded', 'processing', 'succeeded', attempt, %(worker)s, clock.now FROM settled, clock
),
counted AS (
  INSERT INTO {stats} AS s (minute, queue, name, shard, succeeded, failed, dead, cancelled, run_seconds)
  SELECT date_trunc('minute', clock.now), queue, name, %(shard)s, count(*), 0, 0, 0, coalesce(sum(seconds), 0)
  FROM settled, clock GROUP BY clock.now, queue, name ORDER BY queue, name
  ON CONFLICT (minute, queue, name, shard) DO UPDATE
  SET succeeded = s.succeeded + excluded.succeeded, run_seconds = s.run_seconds + excluded.run_seconds
)
SELECT count(*), CASE WHEN count(*) < cardinality(%(ids)s::text[]) THEN array_agg(id) END FROM settled
"""
)

# Any mixture of the other outcomes. What many of them share, such as the target and the class of the error, is given
# once for each ``kind``. ``path`` numbers the ways from processing to the target; their edges come apart.
_SETTLE_OTHERS = (
    "WITH "
    + CLOCK
    + """,
settled AS (
  UPDATE {jobs} j
  SET status = given.target, updated_at = clock.now,
      run_at = coalesce(clock.now + make_interval(secs => given.delay), j.run_at),
      finished_at = CASE WHEN given.target IN ({finished}) THEN clock.now END, locked_by = NULL, locked_until = NULL,
      max_attempts = j.max_attempts + (%(extras)s::int[])[given.kind], error_code = (%(codes)s::text[])[given.kind],
      error_type = (%(types)s::text[])[given.kind], error_frame = (%(frames)s::text[])[given.kind],
      error_message = CASE WHEN (%(failed)s::bool[])[given.kind] THEN given.message END
  FROM (SELECT one.*, (%(targets)s::text[])[kind] AS target
        FROM (SELECT unnest(%(ids)s::text[]) AS id, unnest(%(attempts)s::int[]) AS attempt,
                     unnest(%(microseconds)s::int8[]) AS microseconds, unnest(%(kinds)s::int[]) AS kind,
                     unnest(%(delays)s::float8[]) AS delay, unnest(%(messages)s::text[]) AS message,
                     unnest(%(traces)s::text[]) AS traceback) one) given, clock
  WHERE j.id = ANY (ARRAY[given.id]) AND coalesce(j.status, '') = 'processing' AND j.locked_by = %(worker)s
    AND j.attempt_count = given.attempt AND j.followups IS NULL
  RETURNING j.id, j.queue, j.name, given.attempt, given.microseconds / 1e6::float8 AS seconds, given.kind, given.target,
            given.message, given.traceback
),
closed AS (
  UPDATE {attempts} a
  SET status = (%(ends)s::text[])[settled.kind], finished_at = clock.now, run_seconds = settled.seconds,
      error_code = (%(codes)s::text[])[settled.kind], error_type = (%(types)s::text[])[settled.kind],
      error_frame = (%(frames)s::text[])[settled.kind], traceback = settled.traceback,
      error_message = CASE WHEN (%(failed)s::bool[])[settled.kind] THEN settled.message END
  FROM settled, clock WHERE a.job_id = ANY (ARRAY[settled.id]) AND a.attempt_number = settled.attempt
),
history AS (
  INSERT INTO {events} (job_id, event_type, from_status, to_status, attempt_number, worker_id, message, created_at)
  SELECT id, edge.event, edge.source, edge.target, attempt, %(worker)s,
         CASE WHEN edge.source = 'processing' THEN settled.message END, clock.now
  FROM settled CROSS JOIN clock CROSS JOIN
       unnest(%(edge_paths)s::int[], %(edge_events)s::text[], %(edge_sources)s::text[], %(edge_targets)s::text[])
       WITH ORDINALITY AS edge(path, event, source, target, step)
  WHERE edge.path = (%(paths)s::int[])[settled.kind]
  ORDER BY id, step
),
counted AS (
  INSERT INTO {stats} AS s (minute, queue, name, shard, succeeded, failed, dead, cancelled, run_seconds)
  SELECT date_trunc('minute', clock.now), queue, name, %(shard)s, 0,
         count(*) FILTER (WHERE target <> 'cancelled' AND (%(extras)s::int[])[kind] = 0),
         count(*) FILTER (WHERE target = 'dead'), count(*) FILTER (WHERE target = 'cancelled'),
         coalesce(sum(seconds), 0)
  FROM settled, clock GROUP BY clock.now, queue, name ORDER BY queue, name
  ON CONFLICT (minute, queue, name, shard) DO UPDATE
  SET failed = s.failed + excluded.failed, dead = s.dead + excluded.dead,
      cancelled = s.cancelled + excluded.cancelled, run_seconds = s.run_seconds + excluded.run_seconds
)
SELECT count(*), CASE WHEN count(*) < cardinality(%(ids)s::text[]) THEN array_agg(id) END FROM settled
"""
)
