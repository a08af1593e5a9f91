"""Permits in the set-based statements of PostgreSQL: taken with the claim, given back with the settlement.

Only for limits that do not bind. A claim leaves a job to the common way, which takes what there is and parks the
others, where somebody waits in the line of its partition, where no slot or token is found at once, where its limit has
both, and where a lowered limit is exceeded still. So a statement never has to decide who comes first.
"""

from __future__ import annotations

from sloppyjobs.domain.followups import Followup

# Per partition, so that nothing is joined: rows are many, statistics are none, and a join might compare all with all.
# A scalar subquery with a limit looks into the index once; EXISTS might read the whole line into a hash table.
PERMITS = """partitions AS MATERIALIZED (
  SELECT wanted.resource, wanted.partition_key, wanted.ids, of_limit.concurrency, of_limit.rate,
         make_interval(secs => of_limit.per_seconds) AS per,
         -- A part of the slots, at random: claims that begin with the lowest would all take the same.
         floor(random() * (1 + of_limit.concurrency - least(of_limit.concurrency, wanted.width)))::int AS least_slot,
         least(of_limit.concurrency, wanted.width) AS width
  FROM (
    SELECT resource, partition_key, array_agg(id ORDER BY priority DESC, run_at, created_at, id) AS ids,
           4 * count(*)::int + 64 AS width
    FROM picked WHERE resource IS NOT NULL GROUP BY resource, partition_key
  ) wanted
  LEFT JOIN LATERAL (
    -- No interval is as long as somebody may write by hand, and NaN is greater than all numbers.
    SELECT l.concurrency, l.rate,
           CASE WHEN l.per_seconds > 0 AND l.per_seconds < 1e10 THEN l.per_seconds END AS per_seconds
    FROM {limits} l
    WHERE l.name = wanted.resource AND l.vanished_at IS NULL LIMIT 1
  ) of_limit ON true
  WHERE (SELECT w.job_id FROM {parked} w WHERE w.released = 0 AND w.resource = wanted.resource
           AND w.partition_key = wanted.partition_key LIMIT 1) IS NULL
    AND (SELECT w.job_id FROM {parked} w WHERE w.released = 1 AND w.resource = wanted.resource
           AND w.partition_key = wanted.partition_key LIMIT 1) IS NULL
  ORDER BY wanted.resource, wanted.partition_key
),
slots AS MATERIALIZED (
  SELECT p.resource, p.partition_key, pair.slot, pair.id
  FROM (
    SELECT *, ARRAY (
      SELECT t.slot FROM {permits} t WHERE t.resource = partitions.resource
        AND t.partition_key = partitions.partition_key AND t.slot >= least_slot AND t.slot < least_slot + width
    ) AS held
    FROM partitions
  ) p CROSS JOIN LATERAL unnest(p.ids, ARRAY (
    SELECT s.slot FROM (SELECT generate_series(p.least_slot, p.least_slot + p.width - 1) AS slot) s
    WHERE s.slot <> ALL (p.held) LIMIT cardinality(p.ids)
  )) AS pair(id, slot)
  WHERE p.concurrency IS NOT NULL AND p.rate IS NULL AND pair.id IS NOT NULL AND pair.slot IS NOT NULL
    AND (SELECT t.slot FROM {permits} t WHERE t.resource = p.resource AND t.partition_key = p.partition_key
           AND t.slot >= p.concurrency LIMIT 1) IS NULL
    AND (SELECT t.slot FROM {permits} t WHERE t.job_id = ANY (p.ids) LIMIT 1) IS NULL
),
taken AS (
  INSERT INTO {permits} (resource, partition_key, slot, job_id, taken_at)
  SELECT resource, partition_key, slot, id, clock.now FROM slots, clock ORDER BY resource, partition_key, slot
  ON CONFLICT DO NOTHING
  RETURNING job_id
),
-- Locked, not compared: what is read here holds until the end.
rated AS MATERIALIZED (
  SELECT p.resource, p.partition_key, p.ids, p.rate, extract(epoch FROM p.per)::numeric AS span,
         least(greatest(bucket.full_at, clock.now), clock.now + p.per) AS full_at, clock.now
  FROM clock CROSS JOIN partitions p CROSS JOIN LATERAL (
    SELECT b.full_at FROM {buckets} b WHERE b.resource = p.resource AND b.partition_key = p.partition_key
    LIMIT 1 FOR UPDATE
  ) bucket
  WHERE p.concurrency IS NULL AND p.rate IS NOT NULL AND p.per IS NOT NULL
),
tokens AS MATERIALIZED (
  SELECT rated.*, least(
    cardinality(ids), div((span - extract(epoch FROM full_at - now)::numeric) * rate, span)
  )::int AS number
  FROM rated
),
spent AS (
  UPDATE {buckets} b
  SET full_at = tokens.full_at + interval '1 microsecond' * div(number * span * 1000000, rate)::float8
  FROM tokens WHERE b.resource = ANY (ARRAY[tokens.resource]) AND b.partition_key = ANY (ARRAY[tokens.partition_key])
    AND number > 0
),
admitted AS (
  SELECT unnest(ids) AS id FROM partitions WHERE concurrency IS NULL AND rate IS NULL
  UNION ALL
  SELECT job_id FROM taken
  UNION ALL
  SELECT unnest(ids[1:number]) FROM tokens
),
"""

_END = ")\nSELECT count(*), CASE"
_GIVEN_BACK = """),
given_back AS (
  DELETE FROM {permits} WHERE job_id = ANY (ARRAY (SELECT id FROM settled))
)
SELECT count(*), CASE"""

LINES = """
SELECT DISTINCT j.resource, j.partition_key FROM unnest(%(ids)s::text[]) AS given(id) CROSS JOIN LATERAL (
  SELECT resource, coalesce(partition_key, '') AS partition_key FROM {jobs} WHERE id = ANY (ARRAY[given.id]) LIMIT 1
) j
-- Mostly there is no line at all, and then no job is read.
WHERE (SELECT w.job_id FROM {parked} w WHERE w.released = 0 LIMIT 1) IS NOT NULL
  AND (SELECT w.job_id FROM {parked} w WHERE w.released = 0 AND w.resource = j.resource
         AND w.partition_key = j.partition_key LIMIT 1) IS NOT NULL
"""
"""In which lines somebody waits, of those for whose permits these jobs ran."""


def of_limited(template: str, bits: Followup) -> str:
    """The statement for jobs under limits, as a template, from that for jobs on which only ``bits`` hang."""
    before = f"j.followups = {int(bits)}" if bits else "j.followups IS NULL"
    assert template.count(before) == 1 and template.count(_END) == 1
    return template.replace(before, f"j.followups = {int(bits | Followup.PERMIT)}").replace(_END, _GIVEN_BACK)
