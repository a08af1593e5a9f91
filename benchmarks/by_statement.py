"""What each statement of a drain costs PostgreSQL: CPU of the one process that runs them, turn after turn."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import bare
from sloppyjobs.domain.followups import Followup
from sloppyjobs.storage.dialects.postgres import statements
from sloppyjobs.storage.dialects.postgres.settle_statements import Hanging
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.schema.tables import Tables

PARTS = ("claim", "settle", "second look", "commit")
CLAIMED, SETTLED = 500, 250
_FOLLOWUPS = rows.CLAIM_FIELDS.index("followups")
AVAILABLE = Path("/proc/self/schedstat").exists()
"""Whether this machine tells the CPU of a process to the nanosecond; the server must run on it."""


class Backend:
    """A connection, and the CPU of the process that serves it."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._clock = Path(f"/proc/{self._connection.info.backend_pid}/schedstat")
        self.nanoseconds: Counter[str] = Counter()

    def begin(self) -> None:
        """Begin a transaction."""
        self._connection.execute("BEGIN")
        self._connection.execute(statements.PLAN_BY_INDEX, prepare=True)

    def run(self, part: str, statement: str, values: Any = None) -> Any:
        """Execute a statement as a part of the drain."""
        before = self._used()
        answer = self._connection.execute(statement, values, prepare=True)  # type: ignore[call-overload]
        self.nanoseconds[part] += self._used() - before
        return answer

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _used(self) -> int:
        return int(self._clock.read_text().split()[0])


def drain(url: str, jobs: int, graphs: bool) -> dict[str, float]:
    """Claim and settle everything on one connection: microseconds a job of each part."""
    sql, backend, left = statements.statements(Tables(), None), Backend(url), jobs
    held: deque[Sequence[Any]] = deque()
    while left:
        if len(held) < CLAIMED:
            backend.begin()
            held += backend.run("claim", sql.claim, bare.claim_values(CLAIMED)).fetchall()
            backend.run("commit", "COMMIT")
        if not held:
            raise AssertionError(f"{left} jobs are neither queued nor settled")
        some = _next_part(held)
        ended = [(row[0], row[bare.ATTEMPT]) for row in some]
        backend.begin()
        if graphs:
            left -= _settle_graphs(backend, sql, ended, held)
        else:
            settle = sql.settle[Hanging.NOTHING].successes
            left -= backend.run("settle", settle, bare.settle_values(ended)).fetchone()[0]
        backend.run("commit", "COMMIT")
    backend.close()
    return {part: backend.nanoseconds[part] / jobs / 1000 for part in PARTS}


def _next_part(held: deque[Sequence[Any]]) -> list[Sequence[Any]]:
    """What is settled next; of jobs for which eight wait, only as many as let no more of these go than are claimed."""
    room = SETTLED
    some = []
    while held and room > 0:
        some.append(held.popleft())
        room -= 4 if some[-1][_FOLLOWUPS] == Followup.DEPENDANTS else 1
    return some


def _settle_graphs(backend: Backend, sql: statements.Statements, ended: Any, held: deque[Sequence[Any]]) -> int:
    """Settle jobs of graphs, and hold those of their children that were claimed; how many were settled."""
    settle = sql.settle[Hanging.GRAPH]
    values = bare.settle_values(ended) | bare.claim_values(CLAIMED) | {"room": CLAIMED}
    [numbers, *claimed] = backend.run("settle", settle.successes, values).fetchall()
    held.extendleft(reversed(claimed))
    for following in settle.then:
        backend.run("second look", following, values)
    number: int = numbers[-2]
    return number
