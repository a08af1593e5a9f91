"""What is the same on every server when nothing passes on its connections any more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from proxy import FaultyProxy
from sqlalchemy import create_engine

from sloppyjobs import Jobs

BOUND = 1.0
"""Seconds that the producers of these tests wait for an answer; ten unless one says otherwise."""

LONG = 60.0
"""What nobody here ever waits for; without a bound it would be for ever."""

CALLS: dict[str, Callable[[Jobs], object]] = {
    "enqueue": lambda jobs: jobs.enqueue("greet", idempotency_key="once"),
    "enqueue_many": lambda jobs: jobs.enqueue_many([("greet", {})] * 2),
    "enqueue_many with options": lambda jobs: jobs.enqueue_many([("greet", {}, {"priority": n}) for n in range(2)]),
    "enqueue_many with keys": lambda jobs: jobs.enqueue_many([("greet", {}, {"idempotency_key": "k"})]),
    "overview": lambda jobs: jobs.admin.overview(),
    "lock": lambda jobs: jobs.locks("me").acquire("nightly"),
    "claim": lambda jobs: jobs.claim("worker"),
    "pause_queue": lambda jobs: jobs.admin.pause_queue("default"),
}


def give_up_and_go_on(jobs: Jobs, proxy: FaultyProxy) -> None:
    """Each call meets connections on which nothing passes, and is answered on new ones."""
    for name, call in CALLS.items():
        jobs.enqueue("greet")
        jobs.admin.list_locks()
        lost = proxy.black_hole()
        assert lost, name
        begun = time.monotonic()
        assert call(jobs), name
        assert time.monotonic() - begun < LONG, name
        for link in lost:
            link.reset()


def keep_leases_and_go_on(proxy: FaultyProxy, proxied_url: str, direct_url: str, *, ours: bool) -> None:
    """A worker goes on with new connections, and the job that it runs keeps its lease."""
    engine = create_engine(proxied_url.replace("postgresql://", "postgresql+psycopg://"))
    jobs, onlooker = Jobs(proxied_url if ours else engine), Jobs(direct_url)
    running, leave = threading.Event(), threading.Event()

    @jobs.define("hold")
    def hold(_ctx: Any, _payload: Any) -> str:
        running.set()
        assert leave.wait(100)
        return "held"

    jobs.define("greet", lambda _ctx, _payload: "hello")
    onlooker.declare("hold")
    onlooker.declare("greet")
    # Without maintenance, whose thread may still wait for its answer when the test is over.
    worker = jobs.create_worker(lease=24, heartbeat=1, poll_interval=0.5, maintenance=False)
    worker.start()
    try:
        held = onlooker.enqueue("hold")
        assert running.wait(30)
        assert proxy.black_hole()
        # Claimed, run and settled on new connections, while the long one keeps its lease beyond its first one's end.
        assert onlooker.wait(onlooker.enqueue("greet").id, timeout=LONG).status == "succeeded"
        first = onlooker.get(held.id)
        assert first.status == "processing" and first.locked_until is not None
        deadline = time.monotonic() + LONG
        while (now := onlooker.get(held.id)).locked_until <= first.locked_until:  # type: ignore[operator]
            assert now.status == "processing" and time.monotonic() < deadline
            time.sleep(0.05)
        leave.set()
        done = onlooker.wait(held.id, timeout=LONG)
        assert (done.status, done.attempt_count) == ("succeeded", 1)
    finally:
        leave.set()
        worker.stop(timeout=60)
        jobs.storage.close()
        onlooker.storage.close()
        engine.dispose()
