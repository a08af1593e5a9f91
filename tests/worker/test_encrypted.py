"""Encrypted jobs in every kind of runner, and nothing of them in the clear anywhere in the database."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData, create_engine, select

from sloppyjobs import Jobs, Keyring, errors

Start = Callable[..., Any]
CANARIES = ("payload-canary-41", "result-canary-41", "log-canary-41", "field-canary-41", "parent-canary-41")


def speak(ctx: Any, payload: Any) -> Any:
    """Logs, and answers."""
    ctx.log("info", "log-canary-41", field="field-canary-41")
    logging.getLogger("shop").warning("log-canary-41 of a logger")
    return {"result": "result-canary-41", "was": payload, "parents": list(ctx.parents.values())}


async def speak_async(ctx: Any, payload: Any) -> Any:
    """The same as a coroutine."""
    return speak(ctx, payload)


def parent(ctx: Any, payload: Any) -> Any:
    """A parent."""
    return "parent-canary-41"


@pytest.mark.parametrize("isolation", ["thread", "async", "process"])
def test_no_plaintext_is_anywhere(tmp_path: Path, isolation: Any) -> None:
    path = tmp_path / "jobs.db"
    jobs = Jobs(f"sqlite:///{path}", encryption=Keyring([Keyring.generate()]))
    jobs.init()
    jobs.define("parent", parent)
    jobs.define(
        "speak", speak_async if isolation == "async" else speak, isolation=isolation, capture_logs=True, version=2
    )
    jobs.upcast("speak", 1)(str)
    jobs.recurring("often", "speak", {"name": "payload-canary-41"}, every=3600)
    worker = jobs.create_worker(concurrency=2)
    worker.start()
    try:
        first = jobs.enqueue("parent", "payload-canary-41")
        job = jobs.enqueue("speak", "payload-canary-41", version=1, depends_on=first)
        done = jobs.wait(job.id, timeout=60)
        gone = jobs.enqueue("parent", "payload-canary-41")
        jobs.wait(gone.id, timeout=60)
    finally:
        worker.stop()
    wanted = {"result": "result-canary-41", "was": "payload-canary-41", "parents": ["parent-canary-41"]}
    assert done.result == wanted
    jobs.admin.delete(gone.id)
    jobs.admin.purge(older_than=0, archive=True)
    assert jobs.storage.inspection.archive(), "the archive is looked at too"
    dumped = _dumped(f"sqlite:///{path}")
    files = b"".join(one.read_bytes() for one in tmp_path.iterdir())
    for canary in CANARIES:
        assert canary not in dumped
        assert canary.encode() not in files
    shown = repr((jobs.admin.get_job(job.id), jobs.admin.logs(job.id)))
    assert all(canary in shown for canary in CANARIES)
    jobs.storage.close()


def _dumped(url: str) -> str:
    engine, tables = create_engine(url), MetaData()
    tables.reflect(engine)
    with engine.connect() as connection:
        found = [repr(row) for table in tables.sorted_tables for row in connection.execute(select(table))]
    engine.dispose()
    assert len(found) > 20
    return "\n".join(found)


@pytest.mark.parametrize("isolation", ["thread", "async", "process"])
def test_a_missing_key_is_dead_at_once(jobs: Jobs, start: Start, isolation: Any) -> None:
    secret = Jobs(jobs.storage, encryption=Keyring([Keyring.generate()]))
    secret.declare("speak")
    job = secret.enqueue("speak", "payload-canary-41", max_attempts=5)
    jobs.define("speak", speak_async if isolation == "async" else speak, isolation=isolation)
    start(concurrency=2)
    dead = jobs.wait(job.id, timeout=60)
    assert (dead.status, dead.error_code, dead.attempt_count) == ("dead", errors.DecryptionFailed.code, 1)
