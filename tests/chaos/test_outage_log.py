"""An outage is logged once when it begins and once when it is over, also by a worker that has nothing to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from proxy import FaultyProxy

from sloppyjobs import Jobs
from sloppyjobs.storage.workers import WorkerRows

TRIES = 4


def test_an_idle_worker_says_once_that_it_cannot_renew(
    proxy: FaultyProxy,
    proxied_url: str,
    eventually: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[object] = []
    real = WorkerRows.heartbeat
    monkeypatch.setattr(WorkerRows, "heartbeat", lambda *given: (tries.append(given), real(*given))[1])
    jobs = Jobs(proxied_url)
    jobs.define("greet", lambda _ctx, _payload: "hello")
    worker = jobs.create_worker(lease=30, heartbeat=0.2, poll_interval=0.2, recurring=False, maintenance=False)
    worker.start()

    def said(words: str) -> int:
        return sum(record.getMessage().startswith(f"renewing the leases {words}") for record in caplog.records)

    try:
        eventually(lambda: tries)
        proxy.refuse = True
        proxy.reset()
        eventually(lambda: said("failed"))
        before = len(tries)
        eventually(lambda: len(tries) >= before + TRIES)
        assert (said("failed"), said("works again")) == (1, 0)
        proxy.refuse = False
        eventually(lambda: said("works again"))
        assert said("failed") == 1
    finally:
        proxy.refuse = False
        assert worker.stop(timeout=60)
        jobs.storage.close()
