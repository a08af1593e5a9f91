"""The statements that claim, as text: one for plain jobs, and one that takes permits as well.

A worker sends the first one until it meets jobs that need permits: what these need would cost every job.
"""

from __future__ import annotations

from sloppyjobs.storage.dialects.postgres.permit_statements import PERMITS
from sloppyjobs.storage.dialects.postgres.settle_statements import CLOCK

# How many jobs of each lane are taken. Of many lanes each has few of the first jobs, so few of each are read at first;
# and more only of those lanes all of whose jobs so far come before the last that may be taken.
_SHARES = (
    "WITH RECURSIVE "
    + CLOCK
    + """,
lanes AS (
  (SELECT queue, name FROM {jobs} WHERE status = 'queued' ORDER BY queue, name LIMIT 1)
  UNION ALL
  SELECT next.queue, next.name FROM lanes CROSS JOIN LATERAL (
    SELECT j.queue, j.name FROM {jobs} j
    WHERE j.status = 'queued' AND (j.queue, j.name) > (lanes.queue, lanes.name)
    ORDER BY j.queue, j.name LIMIT 1
  ) next
),
open AS MATERIALIZED (
  SELECT queue, name FROM lanes
  WHERE (%(queues)s::text[] IS NULL OR queue = ANY (%(queues)s::text[]))
    AND (%(names)s::text[] IS NULL OR name = ANY (%(names)s::text[]))
    AND NOT EXISTS (
      SELECT FROM {queues} q WHERE q.name = lanes.queue AND q.paused_at IS NOT NULL
        AND (q.paused_until IS NULL OR q.paused_until > (SELECT now FROM clock))
    )
),
depth AS MATERIALIZED (SELECT 2 + 2 * %(most)s::int / greatest(count(*), 1) AS jobs FROM open),
first AS MATERIALIZED (
  SELECT open.queue, open.name, head.* FROM open CROSS JOIN LATERAL (
    SELECT j.priority, j.run_at, j.created_at FROM {jobs} j
    WHERE j.status = 'queued' AND j.queue = open.queue AND j.name = open.name
      AND j.run_at <= (SELECT now FROM clock)
    ORDER BY j.priority DESC, j.run_at, j.created_at LIMIT (SELECT jobs FROM depth)
  ) head
  WHERE (SELECT count(*) FROM open) > 1
),
last AS MATERIALIZED (
  SELECT priority, run_at, created_at FROM first
  ORDER BY priority DESC, run_at, created_at OFFSET %(most)s - 1 LIMIT 1
),
near AS MATERIALIZED (
  SELECT first.* FROM first LEFT JOIN last ON true
  WHERE last.priority IS NULL OR first.priority > last.priority
    OR first.priority = last.priority AND (first.run_at, first.created_at) <= (last.run_at, last.created_at)
),
heads AS MATERIALIZED (
  SELECT queue, name FROM (
    SELECT * FROM near
    UNION ALL
    SELECT deep.queue, deep.name, head.* FROM (
      SELECT queue, name FROM near GROUP BY queue, name HAVING count(*) = (SELECT jobs FROM depth)
    ) deep CROSS JOIN LATERAL (
      SELECT j.priority, j.run_at, j.created_at FROM {jobs} j
      WHERE j.status = 'queued' AND j.queue = deep.queue AND j.name = deep.name
        AND j.run_at <= (SELECT now FROM clock)
      ORDER BY j.priority DESC, j.run_at, j.created_at
      OFFSET (SELECT jobs FROM depth) LIMIT greatest(%(most)s - (SELECT jobs FROM depth), 0)
    ) head
  ) head
  ORDER BY priority DESC, run_at, created_at LIMIT %(most)s
),
shares AS MATERIALIZED (
  SELECT queue, name, count(*) AS share FROM heads GROUP BY queue, name
  UNION ALL
  SELECT queue, name, %(most)s FROM open WHERE (SELECT count(*) FROM open) = 1
),
"""
)
_NEXT = """
    WHERE j.status = 'queued' AND j.queue = shares.queue AND j.name = shares.name
      AND j.run_at <= (SELECT now FROM clock)
    ORDER BY j.priority DESC, j.run_at, j.created_at LIMIT shares.share
    FOR UPDATE SKIP LOCKED
  ) job
),
"""
_TAKE = """
  UPDATE {jobs} j
  SET status = 'processing', attempt_count = j.attempt_count + 1, locked_by = %(worker)s, updated_at = clock.now,
      locked_until = clock.now + make_interval(secs => %(lease)s::float8),
      progress_percent = NULL, progress_message = NULL, progress_fields = NULL
  FROM clock WHERE """
_OPEN = """
  RETURNING {j_claim_fields}
),
opened AS (
  INSERT INTO {attempts} (job_id, attempt_number, worker_id, status, started_at)
  SELECT id, attempt_count, %(worker)s, 'running', updated_at FROM claimed
),
history AS (
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
    _SHARES
    + """picked AS MATERIALIZED (
  SELECT job.place, job.limited FROM shares CROSS JOIN LATERAL (
    SELECT j.ctid AS place, coalesce(j.followups & {permit}, 0) <> 0 AS limited FROM {jobs} j"""
    + _NEXT
    + "claimed AS ("
    + _TAKE
    + "j.ctid = ANY (ARRAY (SELECT place FROM picked WHERE NOT limited))"
    + _OPEN
    + "(SELECT FROM picked WHERE limited LIMIT 1) met"
    + _IN_ORDER
)
"""Jobs that need permits are passed over; that there were some is told by a last row, which is empty."""

CLAIM_LIMITED = (
    _SHARES
    + """picked AS MATERIALIZED (
  SELECT job.* FROM shares CROSS JOIN LATERAL (
    SELECT j.id, CASE WHEN j.followups & {permit} <> 0 THEN j.resource END AS resource,
           coalesce(j.partition_key, '') AS partition_key, j.priority, j.run_at, j.created_at FROM {jobs} j"""
    + _NEXT
    + PERMITS
    + "claimed AS ("
    + _TAKE
    + """j.id = ANY (ARRAY (
    SELECT id FROM picked WHERE resource IS NULL UNION ALL SELECT id FROM admitted
  ))"""
    + _OPEN
    + "(SELECT WHERE (SELECT count(*) FROM claimed) < (SELECT count(*) FROM picked)) met"
    + _IN_ORDER
)
"""The same, but jobs that need permits get them where no limit binds; the last row tells that there were others."""
