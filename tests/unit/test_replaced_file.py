"""A SQLite file that is removed or replaced while it is in use: nothing is acknowledged into what nobody sees."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sloppyjobs import Jobs, SchemaMissing


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def jobs(path: Path) -> Iterator[Jobs]:
    made = Jobs(f"sqlite:///{path}")
    made.init()
    made.define("note", lambda ctx, payload: payload)
    yield made
    made.storage.close()


def remove(path: Path) -> None:
    # The file last: a worker makes a new one at once, and these beside it.
    for end in ("-wal", "-shm", ""):
        Path(f"{path}{end}").unlink(missing_ok=True)


CALLS: dict[str, Callable[[Jobs], object]] = {
    "enqueue": lambda jobs: jobs.enqueue("note"),
    "enqueue with a key": lambda jobs: jobs.enqueue("note", idempotency_key="k"),
    "enqueue_many": lambda jobs: jobs.enqueue_many([("note", 1)] * 3),
    "recurring": lambda jobs: jobs.recurring("nightly", "note", cron="0 2 * * *"),
    "tick": lambda jobs: jobs.tick_recurring(),
    "claim": lambda jobs: jobs.claim("w"),
    "lock": lambda jobs: jobs.locks("me").acquire("a"),
    "list": lambda jobs: jobs.admin.list_jobs(),
    "pass": lambda jobs: jobs.create_worker().run_once(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_file_that_was_removed_has_no_tables(jobs: Jobs, path: Path, call: Callable[[Jobs], object]) -> None:
    jobs.enqueue("note")
    jobs.admin.list_jobs()
    remove(path)
    for _ in range(2):
        with pytest.raises(SchemaMissing):
            call(jobs)
    jobs.init()
    assert jobs.enqueue("note").status == "queued"
    assert len(jobs.admin.list_jobs().items) == 1


def test_what_is_enqueued_goes_to_the_file_that_has_taken_the_place(jobs: Jobs, path: Path, tmp_path: Path) -> None:
    before = jobs.enqueue("note", "before")
    restored = tmp_path / "restored.db"
    with sqlite3.connect(path) as source, sqlite3.connect(restored) as copy:
        source.backup(copy)
    lost = jobs.enqueue("note", "since the copy")
    remove(path)
    restored.rename(path)
    after = jobs.enqueue("note", "after")
    seen = {job.id for job in Jobs(f"sqlite:///{path}").admin.list_jobs()}
    assert seen == {job.id for job in jobs.admin.list_jobs()} == {before.id, after.id}
    assert lost.id not in seen


def test_nothing_is_taken_for_known_that_the_other_file_does_not_have(jobs: Jobs, path: Path) -> None:
    jobs.limit("api", concurrency=1)
    jobs.enqueue("note", queue="mail", tags=["a"], resource="api")
    jobs.enqueue_many([("note", 1, {"queue": "bulk"})] * 3)
    remove(path)
    Jobs(f"sqlite:///{path}").init()
    jobs.enqueue("note", queue="mail", tags=["a"], resource="api")
    jobs.enqueue_many([("note", 1, {"queue": "bulk"})] * 3)
    assert {queue.name for queue in jobs.admin.list_queues()} == {"mail", "bulk"}
    assert jobs.create_worker().run_once() == 4


def test_a_running_worker_and_its_watcher_follow(tmp_path: Path, eventually: Callable[..., Any]) -> None:
    # With its folder, because a worker that runs makes the files beside it anew between two of three steps.
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "jobs.db"
    jobs = Jobs(f"sqlite:///{path}")
    jobs.init()
    jobs.define("note", lambda ctx, payload: payload)
    # The poll alone would take minutes.
    worker = jobs.create_worker(poll_interval=300, heartbeat=0.1, lease=60, recurring=False, maintenance=False)
    worker.start()
    try:
        assert jobs.wait(jobs.enqueue("note", 1).id, 60).result == 1
        folder.rename(tmp_path / "old")
        folder.mkdir()
        others = Jobs(f"sqlite:///{path}")
        others.init()
        others.declare("note")
        eventually(lambda: [one.id for one in others.admin.list_workers()] == [worker.id])
        for number in (2, 3):
            assert others.wait(others.enqueue("note", number).id, 60).result == number
    finally:
        worker.stop(timeout=5)


def test_a_process_that_changes_its_folder_stays_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    jobs = Jobs("sqlite:///here.db")
    jobs.init()
    jobs.declare("note")
    jobs.enqueue("note")
    opened = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.chdir("/")
    jobs.enqueue("note")
    assert len(list(Path("/proc/self/fd").iterdir())) == opened
    assert len(jobs.admin.list_jobs().items) == 2
    assert not Path("/here.db").exists()
