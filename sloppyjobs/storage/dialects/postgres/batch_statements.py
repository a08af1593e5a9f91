"""Settlement of jobs that belong to batches and have nothing else hanging on them: in the same statement, its rows.

Derived from the statements for plain jobs, which are left as they are: what members need would cost every job.
"""

from __future__ import annotations

from sloppyjobs.domain.followups import Followup

_END = ")\nSELECT count(*), CASE"

# Each row by its whole primary key, whatever the statistics say: a join might read all members for each.
PLACES = """
    SELECT settled.*, found.place FROM settled CROSS JOIN LATERAL (
      SELECT m.ctid AS place FROM {members} m
      WHERE m.batch_id = settled.batch_id AND m.state = 0 AND m.job_id = settled.id
      LIMIT 1 FOR UPDATE
    ) found
  """

_SUCCEEDED = """),
removed AS (
  DELETE FROM {members} WHERE ctid = ANY (ARRAY (SELECT place FROM ({places}) member))
),
tallied AS (
  INSERT INTO {batch_counts} AS c (batch_id, queue, shard, total, succeeded, dead, cancelled, first_at, last_at)
  SELECT batch_id, queue, %(shard)s, 0, count(*), 0, 0, clock.now, clock.now
  FROM settled, clock GROUP BY clock.now, batch_id, queue ORDER BY batch_id, queue
  ON CONFLICT (batch_id, queue, shard) DO UPDATE
  SET succeeded = c.succeeded + excluded.succeeded, first_at = coalesce(c.first_at, excluded.first_at),
      last_at = excluded.last_at
)
SELECT count(*), CASE"""

_OTHERS = """),
removed AS (
  DELETE FROM {members} WHERE ctid = ANY (
    ARRAY (SELECT place FROM ({places}) member WHERE target IN ({finished}))
  )
),
died AS (
  INSERT INTO {members} (batch_id, state, job_id) SELECT batch_id, 1, id FROM settled WHERE target = 'dead'
),
tallied AS (
  INSERT INTO {batch_counts} AS c (batch_id, queue, shard, total, succeeded, dead, cancelled, first_at, last_at)
  SELECT batch_id, queue, %(shard)s, 0, 0, count(*) FILTER (WHERE target = 'dead'),
         count(*) FILTER (WHERE target <> 'dead'), clock.now, clock.now
  FROM settled, clock WHERE target IN ({finished}) GROUP BY clock.now, batch_id, queue ORDER BY batch_id, queue
  ON CONFLICT (batch_id, queue, shard) DO UPDATE
  SET dead = c.dead + excluded.dead, cancelled = c.cancelled + excluded.cancelled,
      first_at = coalesce(c.first_at, excluded.first_at), last_at = excluded.last_at
)
SELECT count(*), CASE"""

OVER_BATCHES = """
SELECT b.id FROM unnest(%(batches)s::text[]) AS given(id) CROSS JOIN LATERAL (
  SELECT id FROM {batches} WHERE id = ANY (ARRAY[given.id]) AND status = 'running'
) b
-- From the end: members are claimed in the order of their ids, and rows that were removed are still in the way.
WHERE (SELECT m.job_id FROM {members} m WHERE m.batch_id = b.id AND m.state = 0 ORDER BY m.job_id DESC LIMIT 1) IS NULL
"""
"""Which of these batches are sealed and have nothing outstanding."""


ADMIT = """
UPDATE {batches} SET updated_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE id = %(batch)s AND status = 'open'
"""
"""Whoever seals the batch waits for the jobs that it takes."""

COUNT_MEMBERS = """
INSERT INTO {batch_counts} AS c (batch_id, queue, shard, total, succeeded, dead, cancelled)
VALUES (%(batch)s, %(queue)s, %(shard)s, %(number)s, 0, 0, 0)
ON CONFLICT (batch_id, queue, shard) DO UPDATE SET total = c.total + excluded.total
"""

ADD_MEMBERS = """
INSERT INTO {members} (batch_id, state, job_id) SELECT %(batch)s, 0, id FROM unnest(%(ids)s::text[]) AS given(id)
"""


def with_members(template: str) -> str:
    """The insert of many jobs, as a template, with their rows as members of a batch."""
    member = """member AS (
  INSERT INTO {members} (batch_id, state, job_id) SELECT %(batch)s, 0, id FROM unnest(%(id)s::text[]) AS new(id)
),
"""
    made = template.replace("seen AS (", member + "seen AS (")
    assert made != template
    return made


def of_members(template: str, *, successes: bool) -> str:
    """The statement for jobs of batches, as a template, from that for plain jobs."""
    made = template.replace("j.followups IS NULL", f"j.followups = {int(Followup.BATCH)}")
    made = made.replace("RETURNING j.id, j.queue", "RETURNING j.id, j.batch_id, j.queue")
    made = made.replace(_END, (_SUCCEEDED if successes else _OTHERS).replace("{places}", PLACES))
    assert "batch_id" in made and "tallied" in made
    return made
