"""A key is changed while workers run, by a process that is killed in the middle of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from sloppyjobs import Jobs, Keyring
from sloppyjobs.domain.sealed import key_of

JOBS = 400
OLD, NEW = Keyring.generate(), Keyring.generate()
[NEW_ID] = Keyring([NEW]).ids

STEPS = """
import os, sys
from sloppyjobs import Jobs, Keyring

jobs = Jobs(sys.argv[1], encryption=Keyring(os.environ["KEYS"].split(",")))
until, done, write = int(sys.argv[2]), 0, jobs.storage.database.write


def held(work):
    # What a transaction does, and then nothing, before it is committed.
    def holding(connection):
        answer = work(connection)
        print("inside", flush=True)
        sys.stdin.read()
        return answer

    return write(holding)


cursor = None
while True:
    if done == until:
        jobs.storage.database.write = held
    step = jobs.admin.rekey(20, cursor)
    done += 1
    print(step.rewritten, flush=True)
    cursor = step.cursor
    if cursor is None:
        break
"""


def _say(ctx: Any, payload: Any) -> Any:
    ctx.log("info", f"said {payload}")
    return payload


def _keys_of(jobs: Jobs) -> set[str | None]:
    inspection = jobs.storage.inspection
    texts = [text for job in inspection.jobs() for text in (job.payload, job.result) if text is not None]
    return {key_of(text) for text in (*texts, *(line.fields or "" for line in inspection.logs()))}


def test_a_killed_rotation_is_finished_by_the_next_while_workers_run(
    jobs: Jobs, database_url: str, eventually: Callable[..., Any]
) -> None:
    old = Jobs(jobs.storage, encryption=Keyring([OLD]))
    old.declare("say")
    written = old.enqueue_many([("say", number) for number in range(JOBS)])
    both = Jobs(jobs.storage, encryption=Keyring([NEW, OLD]))
    both.define("say", _say)
    environment = {**os.environ, "KEYS": f"{NEW},{OLD}"}
    command = [sys.executable, "-c", STEPS, database_url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "3"], env=environment, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(4)] == ["20\n", "20\n", "20\n", "inside\n"]
        process.send_signal(signal.SIGKILL)
    keys = [key_of(job.payload) for job in jobs.storage.inspection.jobs()]
    assert keys.count(NEW_ID) == 60, "what was not committed is undone"
    worker = both.create_worker(concurrency=4)
    worker.start()
    try:
        told = subprocess.check_output([*command, "-1"], env=environment, text=True, timeout=120)
        assert sum(map(int, told.split())) > 0
        eventually(lambda: not both.storage.lists.due(frozenset({"say"}), 1))
        results = [both.wait(job.id, timeout=60).result for job in written]
    finally:
        worker.stop()
    assert results == list(range(JOBS)), "no job was lost, changed or given to another"
    while both.admin.rekey(10_000).rewritten:
        pass
    cursor = None
    while (cursor := both.admin.rekey(10_000, cursor).cursor) is not None:
        pass
    assert _keys_of(jobs) == {NEW_ID}
