"""Children that are claimed by the statement that settles their parents: written once, from waiting to processing.

The worker that settles would claim them next, had they been queued: those that are due, whose queues and names it
takes, and that no queued job comes before. Only as many as it asks for. All others are queued as ever. Both events are
written, so that the history of a job is the same.
"""

from __future__ import annotations

from sloppyjobs.storage.dialects.postgres.claim_statements import OPEN, TAKE

LANES = 32
"""Where there are so many lanes, they are not looked at for jobs that come before, and no child is claimed."""

# Jobs that are being claimed at this moment do not come before: they, or rather the versions that are seen here, are
# locked. Should a claim be undone, its jobs are no longer seen as the first ones until they are claimed anew.
_FIRST = """
lanes AS (
  (SELECT queue, name FROM {jobs}
   WHERE status = 'queued' AND %(room)s::int8 > 0 AND EXISTS (SELECT FROM waiting WHERE ready)
   ORDER BY queue, name LIMIT 1)
  UNION ALL
  SELECT next.* FROM lanes CROSS JOIN LATERAL (
    SELECT j.queue, j.name FROM {jobs} j
    WHERE j.status = 'queued' AND (j.queue, j.name) > (lanes.queue, lanes.name)
    ORDER BY j.queue, j.name LIMIT 1
  ) next
),
looked_at AS MATERIALIZED (SELECT queue, name FROM lanes LIMIT {lanes}),
paused AS MATERIALIZED (
  SELECT used.queue FROM (
    SELECT queue FROM looked_at UNION SELECT queue FROM waiting WHERE ready AND %(room)s::int8 > 0
  ) used WHERE EXISTS (
    SELECT FROM {queues} q WHERE q.name = used.queue AND q.paused_at IS NOT NULL
      AND (q.paused_until IS NULL OR q.paused_until > (SELECT now FROM clock))
  )
),
first AS MATERIALIZED (
  SELECT head.* FROM looked_at CROSS JOIN LATERAL (
    SELECT j.priority, j.run_at, j.created_at FROM {jobs} j
    WHERE j.status = 'queued' AND j.queue = looked_at.queue AND j.name = looked_at.name
      AND j.run_at <= (SELECT now FROM clock) AND j.xmax = 0
    ORDER BY j.priority DESC, j.run_at, j.created_at LIMIT 1
  ) head
  WHERE {of_worker}
  ORDER BY priority DESC, run_at, created_at LIMIT 1
),
able AS MATERIALIZED (
  SELECT waiting.id, waiting.priority, waiting.run_at, waiting.created_at
  FROM waiting LEFT JOIN first ON true
  WHERE %(room)s::int8 > 0 AND ready AND waiting.run_at <= (SELECT now FROM clock) AND {of_worker}
    AND coalesce(followups, 0) & {beyond} = 0 AND (SELECT count(*) FROM looked_at) < {lanes}
    AND (first.priority IS NULL OR (-waiting.priority::int8, waiting.run_at, waiting.created_at)
         <= (-first.priority::int8, first.run_at, first.created_at))
),
"""
_OF_WORKER = """(%(queues)s::text[] IS NULL OR queue IN (SELECT unnest(%(queues)s::text[])))
    AND (%(names)s::text[] IS NULL OR name IN (SELECT unnest(%(names)s::text[])))
    AND queue NOT IN (SELECT queue FROM paused)"""

_RELEASED = """
released AS (
  UPDATE {jobs} j
  SET status = CASE WHEN j.run_at > clock.now THEN 'scheduled' ELSE 'queued' END, updated_at = clock.now,
      waiting_for = NULL
  -- Whatever status this statement sees: the rows are locked, and wait.
  FROM clock WHERE j.id = ANY (ARRAY (SELECT id FROM waiting WHERE ready AND id NOT IN (SELECT id FROM taken)))
  RETURNING j.id, j.status
),
-- One after the other, so that each job's events are in their order.
history_of_children AS (
  INSERT INTO {events} (job_id, event_type, from_status, to_status, attempt_number, worker_id, created_at)
  SELECT id, 'unblocked', 'waiting', status, NULL::int, NULL, clock.now FROM released, clock
  UNION ALL
  SELECT id, 'unblocked', 'waiting', 'queued', NULL, NULL, updated_at FROM claimed
  UNION ALL
  SELECT id, 'claimed', 'queued', 'processing', attempt_count, %(worker)s, updated_at FROM claimed
)
"""


def with_claims(beyond: int) -> str:
    """What follows the children, as a template: those that are able to start are claimed, the others queued.

    ``beyond`` are the bits of what must not hang on a child that is claimed.
    """
    first = _FIRST.replace("{of_worker}", _OF_WORKER).replace("{beyond}", str(beyond)).replace("{lanes}", str(LANES))
    chosen = (
        "taken AS MATERIALIZED (SELECT id FROM able ORDER BY priority DESC, run_at, created_at, id LIMIT %(room)s),"
    )
    take = TAKE.replace("status = 'processing'", "status = 'processing', waiting_for = NULL")
    claimed = f"{first}{chosen}\nclaimed AS ({take}j.id = ANY (ARRAY (SELECT id FROM taken)){OPEN}"
    return claimed.rstrip() + _RELEASED
