"""A worker that is killed at one point of a workflow's life: ``killed_in_graph.py URL POINT``.

``handler``: in the handler of a parent; ``decided``: in the transaction that ends a parent, after its edges were
decided and before its children are released; ``released``: after that, before the commit. On PostgreSQL one statement
does both, and another looks at the children once more: there it is after the first, and after the second.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import text

from sloppyjobs import Jobs
from sloppyjobs.storage.dialects.postgres.turns import Call, PostgresClaims
from sloppyjobs.storage.jobs.dependencies import Dependencies

FIRST, SECOND = "%seen AS MATERIALIZED%", "%current_setting(%"
"""How the server shows the two statements of PostgreSQL, of which it shows the beginning."""


def _die(*_given: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _move_and_die(real: Any) -> Any:
    def move(*given: Any) -> Any:
        real(*given)
        _die()

    return move


class _DiesAfter(tuple[str, ...]):
    """Statements that follow in a transaction; the process dies when the server has done with those before its end."""

    def __iter__(self) -> Iterator[str]:
        yield from super().__iter__()
        done = """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event = 'ClientRead' AND state = 'active' AND query LIKE :last
        """
        engine = Jobs(url).storage.engine.execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            while not connection.execute(text(done), {"last": SECOND if len(self) else FIRST}).scalar():
                time.sleep(0.01)
        _die()

    def __bool__(self) -> bool:
        return True


def _dying(real: Any) -> Any:
    def settle_calls(*given: Any) -> Sequence[Call]:
        then = {"decided": lambda _then: _DiesAfter(), "released": _DiesAfter}[point]
        return [call._replace(then=then(call.then)) if call.then else call for call in real(*given)]

    return settle_calls


if __name__ == "__main__":
    url, point = sys.argv[1:]
    if url.startswith("postgresql") and point != "handler":
        PostgresClaims.settle_calls = _dying(PostgresClaims.settle_calls)  # type: ignore[method-assign]
    elif point == "decided":
        Dependencies._move = _die  # type: ignore[assignment]
    elif point == "released":
        Dependencies._move = _move_and_die(Dependencies._move)  # type: ignore[method-assign]
    jobs = Jobs(url)

    @jobs.define("work")
    def work(_ctx: Any, _payload: Any) -> None:
        """Goes well, unless it is killed."""
        if point == "handler":
            _die()

    jobs.create_worker(lease=2, heartbeat=0.5, poll_interval=0.1, concurrency=2).run()
