"""Blocks of statements for MariaDB: a claim, a settlement and an insert each take one round trip, not six.

While the server works on a block, the worker runs handlers and needs no turn of the interpreter for it. MySQL executes
blocks in stored procedures only: there the statements go one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Float, Integer, Text
from sqlalchemy.types import TypeEngine

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.mariadb import statements
from sloppyjobs.storage.dialects.mariadb.json_rows import json_keys, json_table
from sloppyjobs.storage.dialects.mariadb.prepared import OTHERWISE, with_json, with_list
from sloppyjobs.storage.jobs.settlement_sql import as_json
from sloppyjobs.storage.schema.tables import Tables

_COUNTERS: Mapping[str, TypeEngine[Any]] = {
    "queue": Text(),
    "name": Text(),
    "shard": Integer(),
    "succeeded": Integer(),
    "run_seconds": Float(),
}


def takes_blocks(database: Database) -> bool:
    """Whether the server takes them."""
    return bool(getattr(database.dialect, "takes_blocks", False))


def execute(cursor: Any, block: str, values: Mapping[str, Any]) -> list[list[Any]]:
    """Execute a block; the rows of each of its answers."""
    cursor.execute(block, values)
    found = [list(cursor.fetchall())]
    while cursor.nextset():
        if cursor.description is not None:
            found.append(list(cursor.fetchall()))
    return found


def fill(block: str, values: dict[str, Any], *, lists: Mapping[str, Sequence[str]], **rows: Sequence[Any]) -> str:
    """The block with these lists and JSON rows in it; what the driver has to write there is added to ``values``."""
    for name, given in lists.items():
        block, values[name] = with_list(block, f"%({name})s", given)
    for name, given in rows.items():
        block, values[name] = with_json(block, f"%({name})s", as_json(given))
    return block


# Variables hide columns of the same name, and tables: none of ours is called like these.
_MOMENT = "DECLARE this_moment DATETIME(6) DEFAULT COALESCE(%(now)s, utc_timestamp(6));"
_CHANGED = "DECLARE changed_jobs INT;"
_MINUTE = "TIMESTAMPADD(MICROSECOND, -1000000 * SECOND(this_moment) - MICROSECOND(this_moment), this_moment)"


@lru_cache(maxsize=16)
def insert_one(tables: Tables) -> str:
    """Insert a job that is due now, its first event, and its queue if that is new; answers with the moment."""
    job, event = statements.insert_one(tables)
    for name in ("created_at", "updated_at", "run_at"):
        job, event = (one.replace(f"%({name})s", "this_moment") for one in (job, event))
    queues = statements.name_of(tables.queues)
    return f"""
BEGIN NOT ATOMIC
{_MOMENT}
IF (SELECT 1 FROM {queues} WHERE name = %(queue)s) IS NULL THEN
INSERT IGNORE INTO {queues} (name, created_at) VALUES (%(queue)s, this_moment);
END IF;
{job};
{event};
SELECT this_moment;
END"""


@lru_cache(maxsize=16)
def take_and_open(tables: Tables) -> str:
    """Take jobs, and open their attempts if all of them were taken; answers with the moment, the lease and how many."""
    take, attempts, events = (_in_block(one) for one in statements.claim_statements(tables))
    return f"""
BEGIN NOT ATOMIC
{_MOMENT}
DECLARE lease_until DATETIME(6) DEFAULT TIMESTAMPADD(MICROSECOND, %(lease)s, this_moment);
{_CHANGED}
DECLARE given_json LONGTEXT CHARACTER SET utf8mb4 DEFAULT %(keys)s;
{take.replace("%(until)s", "lease_until")};
SET changed_jobs = ROW_COUNT();
IF changed_jobs = %(meant)s THEN
{attempts.replace("%(keys)s", "given_json")};
{events.replace("%(keys)s", "given_json")};
END IF;
SELECT this_moment, lease_until, changed_jobs;
END"""


@lru_cache(maxsize=16)
def settle_and_count(tables: Tables) -> str:
    """Settle plain successes and count them, or nothing if some are not held any more; answers with how many are."""
    succeed, close, record = (_in_block(one) for one in statements.success_statements(tables, plain=True))
    keys, first = json_keys("%(keys)s", "given"), json_table("given_json", {"id": Text()}, "given")
    return f"""
BEGIN NOT ATOMIC
{_MOMENT}
{_CHANGED}
DECLARE given_json LONGTEXT CHARACTER SET utf8mb4 DEFAULT %(times)s;
SAVEPOINT plain;
{succeed};
SET changed_jobs = ROW_COUNT();
IF changed_jobs = %(meant)s THEN
{close.replace("%(times)s", "given_json")};
{record.replace(keys, first)};
{_count(tables)};
ELSE
ROLLBACK TO SAVEPOINT plain;
END IF;
SELECT changed_jobs;
END"""


def _count(tables: Tables) -> str:
    stats, columns = statements.name_of(tables.stats), ("succeeded", "run_seconds")
    added = ", ".join(f"{name} = {stats}.{name} + VALUES({name})" for name in columns)
    given = json_table("%(counts)s", _COUNTERS, "given")
    return f"""
INSERT INTO {stats} (minute, queue, name, shard, succeeded, failed, dead, cancelled, run_seconds)
SELECT {_MINUTE}, queue, name, shard, succeeded, 0, 0, 0, run_seconds FROM {given}
ON DUPLICATE KEY UPDATE {added}"""


def counter_rows(tallied: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Counters of successes as ``settle_and_count`` takes them."""
    return [tuple(row[name] for name in _COUNTERS) for row in tallied]


@lru_cache(maxsize=16)
def open_lanes(tables: Tables) -> str:
    """Paused queues, and the lanes of the given queues, or of all, as JSON after a comma: an index probe for each."""
    queues, text = statements.name_of(tables.queues), "VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
    probe = (
        f"SELECT queue, name INTO next_queue, next_name FROM {statements.name_of(tables.jobs)} "
        f"WHERE {tables.style.status_in('queued')} AND"
    )
    return f"""
BEGIN NOT ATOMIC
DECLARE this_queue, this_name, next_queue, next_name {text} DEFAULT '';
DECLARE this_place INT DEFAULT 0;
DECLARE found_lanes LONGTEXT CHARACTER SET utf8mb4 DEFAULT '';
DECLARE given_json LONGTEXT CHARACTER SET utf8mb4 DEFAULT %(queues)s;
SELECT name, paused_until FROM {queues} WHERE paused_at IS NOT NULL;
each_queue: LOOP
SET next_name = NULL;
IF given_json IS NULL THEN
{probe} queue > this_queue ORDER BY queue, name LIMIT 1;
IF next_name IS NULL THEN LEAVE each_queue; END IF;
SET this_queue = next_queue;
ELSE
SET this_queue = JSON_VALUE(given_json, CONCAT('$[', this_place, ']')), this_place = this_place + 1;
IF this_queue IS NULL THEN LEAVE each_queue; END IF;
{probe} queue = this_queue ORDER BY name LIMIT 1;
END IF;
WHILE next_name IS NOT NULL DO
SET found_lanes = CONCAT(found_lanes, ',', JSON_ARRAY(this_queue, next_name)), this_name = next_name, next_name = NULL;
{probe} queue = this_queue AND name > this_name ORDER BY name LIMIT 1;
END WHILE;
END LOOP;
SELECT found_lanes;
END"""


@lru_cache(maxsize=64)
def heads_of_only(tables: Tables, heads: str, *, every: bool, resumed: bool) -> str:
    """The heads of a lane, or ``OTHERWISE`` where another lane holds jobs; ``resumed``: or some of a higher priority.

    What was claimed lately is deleted from the index, but is in the way until it is purged. So what stands before the
    lane, or before a place in it, is looked for backwards from there.
    """
    jobs, queues = statements.name_of(tables.jobs), statements.name_of(tables.queues)
    probe = f"(SELECT 1 FROM {jobs} FORCE INDEX (ix_{tables.jobs.name}_claim) WHERE {tables.style.status_in('queued')}"
    lane = "queue = %(of_queue)s AND name"
    before_and_after = (
        f"{probe} AND queue < %(of_queue)s ORDER BY queue DESC LIMIT 1)",
        f"{probe} AND queue > %(of_queue)s ORDER BY queue LIMIT 1)",
    )
    found = [
        f"(SELECT 1 FROM {queues} WHERE name = %(of_queue)s AND paused_at IS NOT NULL)",
        *(before_and_after if every else (f"{probe} AND queue IN %(others)s LIMIT 1)",)),
        f"{probe} AND {lane} < %(of_name)s ORDER BY name DESC LIMIT 1)",
        f"{probe} AND {lane} > %(of_name)s ORDER BY name LIMIT 1)",
    ]
    if resumed:
        found.append(f"{probe} AND {lane} = %(of_name)s AND priority > %(mark_priority)s ORDER BY priority LIMIT 1)")
    return f"""
BEGIN NOT ATOMIC
IF COALESCE({", ".join(found)}) IS NOT NULL THEN
SELECT '{OTHERWISE}';
ELSE
{heads};
END IF;
END"""


def _in_block(statement: str) -> str:
    return statement.strip().replace("%(now)s", "this_moment")
