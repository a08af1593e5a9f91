"""Fork after connect, as a preloading web server does it: each side has connections of its own, and nothing is lost.

Run as a script, this file connects, forks, and lets parent and children enqueue at the same time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from sloppyjobs import Jobs

CHILDREN = 3
EACH = 60


def enqueue(jobs: Jobs, who: str) -> None:
    for number in range(EACH // 3):
        jobs.enqueue("note", [who, number])
        jobs.enqueue_many([("note", [who, number])] * 2)
        for claim in jobs.claim(who):
            assert jobs.complete(claim)


def connect_then_fork(url: str) -> None:
    jobs = Jobs(url)
    jobs.declare("note")
    jobs.enqueue("note", ["before", 0])
    reading, writing = os.pipe()
    children = []
    for number in range(CHILDREN):
        child = os.fork()
        if child == 0:
            try:
                os.close(writing)
                os.read(reading, 1)
                enqueue(jobs, f"child-{number}")
            except BaseException as error:
                sys.stderr.write(repr(error))
                sys.stderr.flush()
                os._exit(1)
            # Not by os._exit: a child that ends in good order closes what it has, and must not close its parent's.
            sys.exit(0)
        children.append(child)
    os.close(writing)
    enqueue(jobs, "parent")
    ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    enqueue(jobs, "parent, later")
    json.dump(ended, sys.stdout)


def fork_while_another_thread_writes(url: str) -> None:
    jobs = Jobs(url)
    jobs.declare("note")
    writes, forked = threading.Event(), threading.Event()

    def write(_connection: Connection) -> None:
        writes.set()
        # A fork that waits for this transaction cannot say so.
        forked.wait(0.5)

    writer = threading.Thread(target=jobs.storage.database.write, args=(write,))
    writer.start()
    writes.wait()
    child = os.fork()
    if child == 0:
        try:
            enqueue(jobs, "child")
        except BaseException as error:
            sys.stderr.write(repr(error))
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    forked.set()
    writer.join()
    enqueue(jobs, "parent")
    json.dump([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])], sys.stdout)


def test_a_child_that_is_forked_while_another_thread_writes_to_a_sqlite_file_can_write_too(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    jobs = Jobs(url)
    jobs.init()
    jobs.storage.close()
    ran = subprocess.run(
        [sys.executable, __file__, url, "writing"], capture_output=True, text=True, check=False, timeout=250
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [0], ran.stderr
    assert _written(url) == {"parent": EACH, "child": EACH}


TWO_FORKS = """
import logging, os, sys, threading
import sloppyjobs.ids

slow, held, go_on = None, threading.Event(), threading.Event()


def pause():
    if threading.current_thread() is slow:
        held.set()
        go_on.wait(30)


# What is registered first is called last: after the library has taken the locks of its files, and before those of the
# modules above, which would keep the other thread waiting.
os.register_at_fork(before=pause)
from sloppyjobs import Jobs
from sloppyjobs.storage.dialects.sqlite import transactions

transactions.FORK_SECONDS = 0.1
jobs = Jobs(sys.argv[1])
jobs.init()
jobs.declare("note")


def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


slow = threading.Thread(target=fork)
slow.start()
held.wait()
fork()
go_on.set()
slow.join()
later = threading.Thread(target=jobs.enqueue, args=("note",), daemon=True)
later.start()
later.join(20)
sys.exit(later.is_alive())
"""


def test_two_threads_that_fork_at_once_leave_no_lock_behind(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", TWO_FORKS, f"sqlite:///{tmp_path}/jobs.db"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_parent_and_children_enqueue_after_a_fork_and_nothing_is_lost(database_url: str) -> None:
    ran = subprocess.run(
        [sys.executable, __file__, database_url], capture_output=True, text=True, check=False, timeout=250
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [0] * CHILDREN, ran.stderr
    assert _written(database_url) == {
        "before": 1,
        "parent": EACH,
        "parent, later": EACH,
        **{f"child-{number}": EACH for number in range(CHILDREN)},
    }


def _written(url: str) -> Counter[Any]:
    jobs = Jobs(url)
    with jobs.storage.engine.connect() as connection:
        payloads = connection.execute(select(jobs.storage.tables.jobs.c.payload)).scalars().all()
    jobs.storage.close()
    return Counter(json.loads(payload)[0] for payload in payloads)


if __name__ == "__main__":
    (fork_while_another_thread_writes if "writing" in sys.argv else connect_then_fork)(sys.argv[1])
