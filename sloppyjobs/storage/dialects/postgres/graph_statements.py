"""Settlement of jobs that wait for other jobs, or for which others wait, and have nothing else hanging on them.

Derived from the statements for plain jobs. The first statement settles, decides the edges of what has ended, locks the
children and lets those start that it can see to be ready. Other parents of a child may be settled by somebody else at
the same moment: which children may still have to start is left in a setting of the transaction, and a second statement,
which sees what was committed before their rows were locked, looks at their edges again.

An attempt whose end has consequences beyond that is not accepted here: an edge that compares a result or is met by a
failure when the job succeeds, and children that can never start.
"""

from __future__ import annotations

import re

from sloppyjobs.domain.dependencies import EdgeState
from sloppyjobs.domain.followups import Followup

ACCEPTED = Followup.DEPENDANTS | Followup.PARENTS | Followup.ANY_PARENT
"""What may hang on the jobs."""

NUMBERS = {
    "dependants": str(int(Followup.DEPENDANTS)),
    "any_parent": str(int(Followup.ANY_PARENT)),
    "open": str(int(EdgeState.OPEN)),
    "met": str(int(EdgeState.MET)),
    "failed": str(int(EdgeState.FAILED)),
}
"""The numbers that stand in the texts."""

_SETTING = "sloppyjobs.children"

# Whoever adds a child writes to the row of its parent. So an edge that this statement does not see is one of a parent
# whose row has another version than the one that it sees, and such a parent is not accepted.
_GIVEN = """given AS MATERIALIZED (
  SELECT given.*, seen.version
  FROM {unnested} CROSS JOIN LATERAL (
    SELECT j.xmin AS version, j.followups FROM {jobs} j WHERE j.id = ANY (ARRAY[given.id])
  ) seen
  WHERE coalesce(seen.followups & {dependants}, 0) = 0 OR {simple}
),
settled AS ("""
_SIMPLE_SUCCESS = """NOT EXISTS (
    SELECT FROM {dependencies} d WHERE d.parent_id = ANY (ARRAY[given.id]) AND d.state = {open}
      AND (d.needs = 'failure' OR d.result_test IS NOT NULL)
  )"""
_SIMPLE_OTHER = "given.target NOT IN ({finished}) OR given.target = 'dead'"
_MET_BY_DEATH = " AND settled.target = 'dead' AND d.needs <> 'success'"

_RELEASED = """
released AS (
  UPDATE {jobs} j
  SET status = CASE WHEN waiting.run_at > clock.now THEN 'scheduled' ELSE 'queued' END, updated_at = clock.now,
      waiting_for = NULL
  -- Whatever status this statement sees: the rows are locked, and wait.
  FROM waiting, clock WHERE waiting.ready AND j.id = ANY (ARRAY[waiting.id])
  RETURNING j.id, j.status
),
unblocked AS (
  INSERT INTO {events} (job_id, event_type, from_status, to_status, created_at)
  SELECT id, 'unblocked', 'waiting', status, clock.now FROM released, clock
)
"""
_NOTIFIED = "(SELECT {notify} FROM released WHERE status = 'queued' LIMIT 1)"

_CHILDREN = (
    """),
decided AS (
  UPDATE {dependencies} d SET state = {met} FROM settled
  WHERE settled.followups & {dependants} <> 0 AND d.parent_id = ANY (ARRAY[settled.id]) AND d.state = {open}{ended}
  RETURNING d.child_id
),
children AS MATERIALIZED (
  SELECT child_id AS id, count(*) AS decided FROM decided GROUP BY child_id
),
-- Also those that do not wait: one that is about to wait again must find what is decided here.
locked AS MATERIALIZED (
  SELECT j.id, j.status, j.waiting_for, j.followups, j.run_at, children.decided
  FROM children CROSS JOIN {jobs} j WHERE j.id = ANY (ARRAY[children.id]) ORDER BY j.id FOR UPDATE OF j
),
waiting AS MATERIALIZED (
  SELECT locked.id, locked.run_at,
         coalesce(locked.followups & {any_parent}, 0) <> 0
           OR (edges.open = locked.decided AND edges.failed = 0) AS ready
  FROM locked CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE e.state = {open}) AS open, count(*) FILTER (WHERE e.state = {failed}) AS failed
    FROM {dependencies} e WHERE e.child_id = ANY (ARRAY[locked.id])
  ) edges
  WHERE locked.status = 'waiting' AND coalesce(locked.waiting_for, 'jobs') = 'jobs'
),"""
    + _RELEASED
    + "SELECT count(*), CASE"
)
_ANSWER = "THEN array_agg(id) END FROM settled"
_MORE_ANSWER = f"""THEN array_agg(id) END,
  (SELECT set_config('{_SETTING}', coalesce(string_agg(id, ','), ''), true) FROM waiting WHERE NOT ready),
  {_NOTIFIED}
FROM settled"""

SECOND_LOOK = (
    f"""
waiting AS MATERIALIZED (
  SELECT j.id, j.run_at, edges.unmet = 0 AS ready
  FROM unnest(string_to_array(current_setting('{_SETTING}'), ',')) AS child(id)
  CROSS JOIN LATERAL (
    SELECT id, run_at FROM {{jobs}} WHERE id = ANY (ARRAY[child.id]) AND coalesce(status, '') = 'waiting'
  ) j
  CROSS JOIN LATERAL (
    SELECT count(*) AS unmet FROM {{dependencies}} e WHERE e.child_id = ANY (ARRAY[j.id]) AND e.state <> {{met}}
  ) edges
),"""
    + _RELEASED
    + f"SELECT {_NOTIFIED}\n"
)
"""Lets those of the children start that others have made ready meanwhile; after the clock."""

_UNNESTED = re.compile(r"FROM (\(SELECT .*?\) given), clock", re.DOTALL)


def of_graphs(template: str, *, successes: bool) -> str:
    """The statement for jobs in graphs, as a template, from that for plain jobs."""
    [unnested] = _UNNESTED.findall(template)
    given = _GIVEN.replace("{simple}", _SIMPLE_SUCCESS if successes else _SIMPLE_OTHER).replace("{unnested}", unnested)
    children = _CHILDREN.replace("{ended}", "" if successes else _MET_BY_DEATH)
    changes = {
        f"FROM {unnested}, clock": "FROM given, clock",
        "settled AS (": given,
        "j.followups IS NULL": f"coalesce(j.followups, 0) & {~int(ACCEPTED)} = 0 AND j.xmin = given.version",
        "RETURNING j.id, j.queue": "RETURNING j.id, j.followups, j.queue",
        ")\nSELECT count(*), CASE": children,
        _ANSWER: _MORE_ANSWER,
    }
    for plain, changed in changes.items():
        assert template.count(plain) == 1, plain
        template = template.replace(plain, changed)
    return template
