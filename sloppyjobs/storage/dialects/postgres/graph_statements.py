"""Settlement of jobs that wait for other jobs, or for which others wait, and have nothing else hanging on them.

Derived from the statements for plain jobs. The first statement settles, decides the edges of what has ended, locks the
children and lets those start that it can see to be ready. Other parents of a child may be settled by somebody else at
the same moment: which children may still have to start is left in a setting of the transaction, and a second statement,
which sees what was committed before their rows were locked, looks at their edges again.

An attempt whose end has consequences beyond that is not accepted here: an edge that compares a result or is met by a
failure when the job succeeds, and children that can never start.
"""

from __future__ import annotations

from sloppyjobs.domain.dependencies import EdgeState
from sloppyjobs.domain.followups import Followup
from sloppyjobs.storage.dialects.postgres.child_claims import with_claims

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
# whose row has another version than the one that it sees, in another place, and such a parent is not accepted.
_SEEN = """seen AS MATERIALIZED (SELECT j.ctid AS place FROM {jobs} j WHERE j.id = ANY (%(ids)s::text[])),
{asking}settled AS ("""
# IS TRUE, so that it is looked up for each row: a join might begin here, and compare all with all.
_AS_SEEN = "(j.ctid IN (SELECT place FROM seen)) IS TRUE"
_ASKING = """asking AS MATERIALIZED (
  SELECT d.parent_id FROM {dependencies} d WHERE d.parent_id = ANY (%(ids)s::text[]) AND d.state = {open}
    AND (d.needs = 'failure' OR d.result_test IS NOT NULL)
),
"""
_SIMPLE_SUCCESS = "j.id NOT IN (SELECT parent_id FROM asking)"
_SIMPLE_OTHER = (
    "(coalesce(j.followups, 0) & {dependants} = 0 OR given.target NOT IN ({finished}) OR given.target = 'dead')"
)
_PARENTS = "followups & {dependants} <> 0"
_DEAD_PARENTS = _PARENTS + " AND target = 'dead'"
_MET_BY_DEATH = " AND d.needs <> 'success'"

_RELEASED = """
released AS (
  UPDATE {jobs} j
  SET status = CASE WHEN j.run_at > clock.now THEN 'scheduled' ELSE 'queued' END, updated_at = clock.now,
      waiting_for = NULL
  -- Whatever status this statement sees: the rows are locked, and wait.
  FROM clock WHERE j.id = ANY (ARRAY (SELECT id FROM waiting WHERE ready))
  RETURNING j.id, j.status
),
unblocked AS (
  INSERT INTO {events} (job_id, event_type, from_status, to_status, created_at)
  SELECT id, 'unblocked', 'waiting', status, clock.now FROM released, clock
)
"""
_NOTIFIED = "(SELECT {notify} FROM released WHERE status = 'queued' LIMIT 1)"

# Each set of rows by one scan with all ids, which is far cheaper than a scan for each of them.
_CHILDREN = """),
decided AS (
  UPDATE {dependencies} d SET state = {met}
  WHERE d.parent_id = ANY (ARRAY (SELECT id FROM settled WHERE {parents})) AND d.state = {open}{by_death}
  RETURNING d.child_id, d.parent_id
),
-- Also those that do not wait: one that is about to wait again must find what is decided here.
locked AS MATERIALIZED (
  SELECT j.id, j.status, j.waiting_for, j.followups, j.queue, j.name, j.priority, j.run_at, j.created_at
  FROM {jobs} j WHERE j.id = ANY (ARRAY (SELECT child_id FROM decided)) ORDER BY j.id FOR UPDATE
),
unmet AS MATERIALIZED (
  SELECT e.child_id FROM {dependencies} e WHERE e.child_id = ANY (ARRAY (SELECT id FROM locked))
    AND (e.state = {failed} OR e.state = {open} AND (e.child_id, e.parent_id) NOT IN (
      SELECT child_id, parent_id FROM decided
    ))
),
waiting AS MATERIALIZED (
  SELECT locked.*, coalesce(followups & {any_parent}, 0) <> 0 OR id NOT IN (SELECT child_id FROM unmet) AS ready
  FROM locked WHERE status = 'waiting' AND coalesce(waiting_for, 'jobs') = 'jobs'
),"""
_ANSWER = ")\nSELECT count(*), CASE WHEN count(*) < cardinality(%(ids)s::text[]) THEN array_agg(id) END FROM settled\n"
_NUMBERS = f"""
  (SELECT set_config('{_SETTING}', coalesce(string_agg(id, ','), ''), true) FROM waiting WHERE NOT ready),
  {_NOTIFIED}::text, {{able}}, count(*), CASE WHEN count(*) < cardinality(%(ids)s::text[]) THEN array_agg(id) END
FROM settled
"""
_NO_CLAIMS = _RELEASED + "SELECT" + _NUMBERS.replace("{able}", "NULL")
# The numbers come first.
_CLAIMS = (
    with_claims(~int(ACCEPTED))
    + "SELECT {claim_fields}, NULL AS unseen, NULL AS notified, NULL AS able, NULL AS number, NULL AS ids"
    + "\nFROM claimed\nUNION ALL\nSELECT {no_claim},"
    + _NUMBERS.replace("{able}", "(SELECT count(*) FROM able)")
    + "ORDER BY number, priority DESC, run_at, created_at, id\n"
)

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


def of_graphs(template: str, *, successes: bool) -> str:
    """The statement for jobs in graphs, as a template, from that for plain jobs."""
    parents, by_death = (_PARENTS, "") if successes else (_DEAD_PARENTS, _MET_BY_DEATH)
    children = _CHILDREN.replace("{parents}", parents).replace("{by_death}", by_death)
    simple = _SIMPLE_SUCCESS if successes else _SIMPLE_OTHER
    changes = {
        "settled AS (": _SEEN.replace("{asking}", _ASKING if successes else ""),
        "j.followups IS NULL": f"coalesce(j.followups, 0) & {~int(ACCEPTED)} = 0 AND {_AS_SEEN} AND {simple}",
        "RETURNING j.id, j.queue": "RETURNING j.id, j.followups, j.queue",
        _ANSWER: children + (_CLAIMS if successes else _NO_CLAIMS),
        "WITH clock": "WITH RECURSIVE clock",
    }
    for plain, changed in changes.items():
        assert template.count(plain) == 1, plain
        template = template.replace(plain, changed)
    return template
