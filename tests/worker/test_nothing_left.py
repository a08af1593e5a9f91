"""A process that can have no thread or descriptor for a while: what waits for one goes on when there is one again."""

from __future__ import annotations

import multiprocessing
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import connection
from typing import Any

import pytest

from sloppyjobs import Jobs, Retry, Worker
from sloppyjobs.worker.runners.messages import MessageClient, MessageServer

Start = Callable[..., Worker]


@pytest.fixture
def database_url(ready_sqlite_url: str) -> str:
    return ready_sqlite_url


@pytest.fixture
def no_threads() -> Iterator[Callable[[bool], None]]:
    """Lets the system refuse every further thread: none can have a stack of this size."""
    usual = threading.stack_size()

    def refuse(refused: bool) -> None:
        threading.stack_size(1 << 47 if refused else usual)

    yield refuse
    threading.stack_size(usual)


def test_a_worker_that_could_start_no_thread_runs_its_jobs_later(
    jobs: Jobs, start: Start, eventually: Callable[..., Any], no_threads: Callable[[bool], None]
) -> None:
    died: list[str] = []
    jobs.define("note", lambda ctx, payload: payload)
    jobs.define("fail", lambda ctx, payload: payload["x"], retry=Retry(max_attempts=1))
    jobs.on_dead(lambda job: died.append(job.id))
    start(concurrency=1)
    # The last of its own, which it does not start again.
    eventually(lambda: "sloppyjobs-tick" in {thread.name for thread in threading.enumerate()})
    no_threads(True)
    noted = jobs.enqueue("note", 7)
    # Where it does not start, it is given back.
    eventually(lambda: jobs.get(noted.id).attempt_count >= 2)
    no_threads(False)
    assert jobs.wait(noted.id, 60).result == 7
    no_threads(True)
    failed = jobs.enqueue("fail", {})
    assert jobs.wait(failed.id, 60).status == "dead"
    time.sleep(0.2)
    no_threads(False)
    later = jobs.enqueue("fail", {})
    eventually(lambda: later.id in died)


def greet(end: connection.Connection[Any, Any]) -> None:
    """As a process that connects."""
    key = bytes(multiprocessing.current_process().authkey)
    connection.answer_challenge(end, key)
    connection.deliver_challenge(end, key)


def test_messages_are_not_accepted_in_a_busy_loop_while_there_is_no_descriptor() -> None:
    server = MessageServer(lambda fence, verb, arguments: [fence, verb, *arguments])
    # Imports what it needs, which takes descriptors.
    early = MessageClient(server.address)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    held: list[int] = []
    waiting = socket.socket(socket.AF_UNIX)
    try:
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        # The thread may have a descriptor for this connection, since it waits; then it has none for the next.
        waiting.connect(server.address)
        other_end = threading.Thread(target=greet, args=(connection.Connection(waiting.detach()),), daemon=True)
        other_end.start()
        time.sleep(0.2)
        clock = time.pthread_getcpuclockid(server._accepting.ident or 0)
        used = time.clock_gettime(clock)
        time.sleep(0.5)
        assert time.clock_gettime(clock) - used < 0.05
    finally:
        for one in held:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    for client in (early, MessageClient(server.address)):
        assert client.call(("job_1", 1), "say", 5) == [("job_1", 1), "say", 5]
    other_end.join(60)
    server.close()
