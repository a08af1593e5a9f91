"""A crowd of real processes that begin at the same instant.

A test file that is run as a script calls ``main``; its functions take the database's URL, the process' number, and a
``begin`` to call when they are ready, which returns in all of them at once.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

SECONDS = 120

Begin = Callable[[], object]
Work = Callable[[str, int, Begin], Any]


def main(functions: Mapping[str, Any]) -> None:
    """Run the function that the command line names in so many processes, and print what they return."""
    _, name, url, size = sys.argv
    json.dump(gather(functions[name], url, int(size)), sys.stdout)


def gather(work: Work, url: str, size: int) -> list[Any]:
    """What the processes return, by number; None for one that was killed."""
    # Forked before anything is connected, so that the imports are paid for once.
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(size)
    pipes, processes = [], []
    for number in range(size):
        receiving, sending = context.Pipe(duplex=False)
        process = context.Process(target=_live, args=(work, url, number, barrier, sending))
        process.start()
        sending.close()
        pipes.append(receiving)
        processes.append(process)
    answers = [_answer(pipe) for pipe in pipes]
    for process in processes:
        process.join(SECONDS)
    failed = [error for error, _ in answers if error]
    failed += [f"ended with {one.exitcode}" for one in processes if one.exitcode not in (0, -signal.SIGKILL)]
    if failed:
        sys.exit("\n".join(failed))
    return [result for _, result in answers]


def _answer(pipe: Any) -> tuple[str | None, Any]:
    try:
        answer: tuple[str | None, Any] = pipe.recv()
    except EOFError:
        return None, None
    return answer


def _live(work: Work, url: str, number: int, barrier: Any, sending: Any) -> None:
    try:
        sending.send((None, work(url, number, lambda: barrier.wait(SECONDS))))
    except BaseException:
        barrier.abort()
        sending.send((traceback.format_exc(), None))
