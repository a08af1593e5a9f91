"""The statements that claim, as text: one for plain jobs, and one that takes permits as well.

A worker sends the first one until it meets jobs that need permits: what these need would cost every job.
"""

from __future__ import annotations

from sloppyjobs.storage.dialects.postgres.permit_statements import PERMITS
from sloppyjobs.storage.dialects.postgres.statement_clock import CLOCK

# The lanes, each with its first job, which the probe that finds the lane has met anyway; those that may be taken from;
# the job that as many lanes begin at or before as jobs may be taken, after which nothing is taken; and the lanes that
# begin before it. Where there are fewer lanes, these are all of them.
_LANES = (
    "WITH RECURSIVE "
    + CLOCK
    + """,
lanes AS (
  (SELECT queue, name, priority, run_at, created_at FROM {jobs} WHERE status = 'queued'
   ORDER BY queue, name, priority DESC, run_at, created_at LIMIT 1)
  UNION ALL
  SELECT next.* FROM lanes CROSS JOIN LATERAL (
    SELECT j.queue, j.name, j.priority, j.run_at, j.created_at FROM {jobs} j
    WHERE j.status = 'queued' AND (j.queue, j.name) > (lanes.queue, lanes.name)
    ORDER BY j.queue, j.name, j.priority DESC, j.run_at, j.created_at LIMIT 1
  ) next
),
paused AS MATERIALIZED (
  SELECT used.queue FROM (SELECT DISTINCT queue FROM lanes) used WHERE EXISTS (
    SELECT FROM {queues} q WHERE q.name = used.queue AND q.paused_at IS NOT NULL
      AND (q.paused_until IS NULL OR q.paused_until > (SELECT now FROM clock))
  )
),
open AS MATERIALIZED (
  SELECT * FROM lanes
  WHERE (%(queues)s::text[] IS NULL OR queue IN (SELECT unnest(%(queues)s::text[])))
    AND (%(names)s::text[] IS NULL OR name IN (SELECT unnest(%(names)s::text[])))
    AND queue NOT IN (SELECT queue FROM paused)
),
bound AS MATERIALIZED (
  SELECT priority, run_at, created_at FROM open WHERE run_at <= (SELECT now FROM clock)
  ORDER BY priority DESC, run_at, created_at OFFSET %(most)s - 1 LIMIT 1
),
begun AS MATERIALIZED (
  SELECT open.queue, open.name, open.priority > bound.priority AS above, bound.priority, bound.run_at, bound.created_at
  FROM open LEFT JOIN bound ON true
  WHERE (SELECT count(*) FROM open) > 1 AND (
    bound.priority IS NULL OR open.priority > bound.priority
    OR open.priority = bound.priority AND (open.run_at, open.created_at) <= (bound.run_at, bound.created_at)
  )
),
"""
)
# How many jobs of each lane are taken. Of many lanes each has few of the first jobs, so few of each are read at first;
# and more only of those lanes all of whose jobs so far come before the last that may be taken.
_SHARES = """depth AS MATERIALIZED (SELECT 3 + 3 * %(most)s::int / greatest(2 * count(*), 1) AS jobs FROM begun),
first AS MATERIALIZED (
  SELECT begun.queue, begun.name, head.* FROM begun CROSS JOIN LATERAL (
    SELECT j.ctid AS place, j.priority, j.run_at, j.created_at FROM {jobs} j
    WHERE j.status = 'queued' AND j.queue = begun.queue AND j.name = begun.name
      AND j.run_at <= (SELECT now FROM clock)
    ORDER BY j.priority DESC, j.run_at, j.created_at LIMIT (SELECT jobs FROM depth)
  ) head
  WHERE begun.priority IS NULL OR begun.above
  UNION ALL
  SELECT begun.queue, begun.name, head.* FROM begun CROSS JOIN LATERAL (
    SELECT j.ctid AS place, j.priority, j.run_at, j.created_at FROM {jobs} j
    WHERE j.status = 'queued' AND j.queue = begun.queue AND j.name = begun.name
      AND j.priority = begun.priority AND (j.run_at, j.created_at) <= (begun.run_at, begun.created_at)
    ORDER BY j.run_at, j.created_at LIMIT (SELECT jobs FROM depth)
  ) head
  WHERE NOT begun.above
),
top AS MATERIALIZED (SELECT * FROM first ORDER BY priority DESC, run_at, created_at LIMIT %(most)s),
deep AS MATERIALIZED (
  SELECT queue, name FROM top GROUP BY queue, name HAVING count(*) = (SELECT jobs FROM depth)
),
heads AS MATERIALIZED (
  SELECT queue, name, place FROM top WHERE NOT EXISTS (SELECT FROM deep)
  UNION ALL
  SELECT queue, name, place FROM (
    SELECT * FROM (
      SELECT * FROM top WHERE EXISTS (SELECT FROM deep)
      UNION ALL
      SELECT deep.queue, deep.name, head.* FROM deep CROSS JOIN LATERAL (
        SELECT j.ctid AS place, j.priority, j.run_at, j.created_at FROM {jobs} j
        WHERE j.status = 'queued' AND j.queue = deep.queue AND j.name = deep.name
          AND j.run_at <= (SELECT now FROM clock)
        ORDER BY j.priority DESC, j.run_at, j.created_at
        OFFSET (SELECT jobs FROM depth) LIMIT greatest(%(most)s - (SELECT jobs FROM depth), 0)
      ) head
    ) head
    ORDER BY priority DESC, run_at, created_at LIMIT %(most)s
  ) head
),
"""
# Where they were found; but where others have been faster with one of them, what its lane has next.
_PICKED = """held AS MATERIALIZED (
  SELECT {{picked}} FROM {jobs} j
  WHERE j.ctid = ANY (ARRAY (SELECT place FROM heads)) AND j.status || '' = 'queued' FOR UPDATE SKIP LOCKED
),
shares AS MATERIALIZED (
  SELECT queue, name, count(*) AS share FROM heads
  WHERE (SELECT count(*) FROM held) < (SELECT count(*) FROM heads) GROUP BY queue, name
  UNION ALL
  SELECT queue, name, %(most)s FROM open WHERE (SELECT count(*) FROM open) = 1
),
picked AS MATERIALIZED (
  SELECT * FROM held WHERE (SELECT count(*) FROM held) = (SELECT count(*) FROM heads)
  UNION ALL
  SELECT job.* FROM shares CROSS JOIN LATERAL (
    SELECT {{picked}} FROM {jobs} j
    WHERE j.status = 'queued' AND j.queue = shares.queue AND j.name = shares.name
      AND j.run_at <= (SELECT now FROM clock)
    ORDER BY j.priority DESC, j.run_at, j.created_at LIMIT shares.share
    FOR UPDATE SKIP LOCKED
  ) job
),
"""


def _picking(columns: str) -> str:
    return _LANES + _SHARES + _PICKED.replace("{{picked}}", columns)


TAKE = """
  UPDATE {jobs} j
  SET status = 'processing', attempt_count = j.attempt_count + 1, locked_by = %(worker)s, updated_at = clock.now,
      locked_until = clock.now + make_interval(secs => %(lease)s::float8),
      progress_percent = NULL, progress_message = NULL, progress_fields = NULL
  FROM clock WHERE """
"""Takes jobs, which the condition that follows must name."""
OPEN = """
  RETURNING {j_claim_fields}
),
opened AS (
  INSERT INTO {attempts} (job_id, attempt_number, worker_id, status, started_at)
  SELECT id, attempt_count, %(worker)s, 'running', updated_at FROM claimed
),
"""
"""Opens the attempts of jobs that were taken as ``claimed``."""
_ANSWER = """history AS (
  INSERT INTO {events} (job_id, event_type, from_status, to_status, attempt_number, worker_id, created_at)
  SELECT id, 'claimed', 'queued', 'processing', attempt_count, %(worker)s, updated_at FROM claimed
)
SELECT {claim_fields} FROM claimed
UNION ALL
SELECT {no_claim} FROM """
_IN_ORDER = """
ORDER BY priority DESC NULLS LAST, run_at, created_at, id
"""

CLAIM = (
    _picking("j.ctid AS place, coalesce(j.followups & {permit}, 0) <> 0 AS limited")
    + "claimed AS ("
    + TAKE
    + "j.ctid = ANY (ARRAY (SELECT place FROM picked WHERE NOT limited))"
    + OPEN
    + _ANSWER
    + "(SELECT FROM picked WHERE limited LIMIT 1) met"
    + _IN_ORDER
)
"""Jobs that need permits are passed over; that there were some is told by a last row, which is empty."""

CLAIM_LIMITED = (
    _picking(
        "j.id, CASE WHEN j.followups & {permit} <> 0 THEN j.resource END AS resource, "
        "coalesce(j.partition_key, '') AS partition_key, j.priority, j.run_at, j.created_at"
    )
    + PERMITS
    + "claimed AS ("
    + TAKE
    + """j.id = ANY (ARRAY (
    SELECT id FROM picked WHERE resource IS NULL UNION ALL SELECT id FROM admitted
  ))"""
    + OPEN
    + _ANSWER
    + "(SELECT WHERE (SELECT count(*) FROM claimed) < (SELECT count(*) FROM picked)) met"
    + _IN_ORDER
)
"""The same, but jobs that need permits get them where no limit binds; the last row tells that there were others."""
