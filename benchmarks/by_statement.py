"""What each statement of a drain costs PostgreSQL: CPU of the one process that runs them, turn after turn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import bare
from sloppyjobs.storage.dialects.postgres import statements
from sloppyjobs.storage.dialects.postgres.settle_statements import Hanging
from sloppyjobs.storage.schema.tables import Tables

PARTS = ("claim", "settle", "second look", "commit")
CLAIMED, SETTLED = 500, 250
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
    settle = sql.settle[Hanging.GRAPH if graphs else Hanging.NOTHING]
    while left:
        backend.begin()
        claimed = backend.run("claim", sql.claim, bare.claim_values(CLAIMED)).fetchall()
        backend.run("commit", "COMMIT")
        for start in range(0, len(claimed), SETTLED):
            some = [(row[0], row[bare.ATTEMPT]) for row in claimed[start : start + SETTLED]]
            backend.begin()
            [number, *_] = backend.run("settle", settle.successes, bare.settle_values(some)).fetchone()
            for following in settle.then:
                backend.run("second look", following, bare.settle_values(some))
            backend.run("commit", "COMMIT")
            left -= number
        if not claimed:
            raise AssertionError(f"{left} jobs are neither queued nor settled")
    backend.close()
    return {part: backend.nanoseconds[part] / jobs / 1000 for part in PARTS}
