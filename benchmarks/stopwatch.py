"""When a drain begins and ends, defined alike for every system.

It begins when the first handler starts, and ends when the tables say that every job is settled. The tables are looked
at only after the last handler has run, so the watching costs the watched nothing.
"""

from __future__ import annotations

import gc
import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil

from benchmarks.server_cpu import ServerCpu

POLL_SECONDS = 0.002
PATIENCE_SECONDS = 300


class Stopwatch:
    """Counts handler calls, and measures from the first of them to the last settlement; the server from now on."""

    def __init__(self, jobs: int, url: str) -> None:
        self._jobs = jobs
        self._server = ServerCpu(url)
        self._server_began = self._server.seconds()
        self._calls = itertools.count(1)
        self._all_ran = threading.Event()
        self._process = psutil.Process(os.getpid())
        self.began = 0.0
        self.cpu_began = 0.0

    def handle(self) -> None:
        """What every handler calls, and all that it does."""
        call = next(self._calls)
        if call == 1:
            # As ``sloppyjobs worker`` does: what the start has left for the garbage collector is no part of the drain.
            gc.freeze()
            self.began, self.cpu_began = time.perf_counter(), time.process_time()
        if call == self._jobs:
            self._all_ran.set()

    def wait(self, settled: Callable[[], bool]) -> dict[str, Any]:
        """Block until everything is settled; the rate, and what the process used."""
        if not self._all_ran.wait(PATIENCE_SECONDS):
            raise TimeoutError(f"only {next(self._calls) - 1} of {self._jobs} handlers have run")
        deadline = time.perf_counter() + PATIENCE_SECONDS
        while not settled():
            if time.perf_counter() > deadline:
                raise TimeoutError("the last jobs were run, but never settled")
            time.sleep(POLL_SECONDS)
        seconds = time.perf_counter() - self.began
        cpu = time.process_time() - self.cpu_began
        return {
            "seconds": seconds,
            "per_second": self._jobs / seconds,
            "cpu_us_per_job": cpu / self._jobs * 1e6,
            "server_us_per_job": self._server.microseconds_since(self._server_began, self._jobs),
            "rss_mb": resident_mb(self._process),
        }


def resident_mb(process: psutil.Process | None = None) -> float:
    """Megabytes of memory in use."""
    return (process or psutil.Process(os.getpid())).memory_info().rss / 1e6


class Timed:
    """Measures from its making until it is asked how fast so many jobs went, and whose CPU they took."""

    def __init__(self, jobs: int, url: str) -> None:
        self._jobs = jobs
        self._server = ServerCpu(url)
        self._server_began = self._server.seconds()
        # All that the benchmark itself has made for later calls is not looked through again in each of them.
        gc.collect()
        gc.freeze()
        self._began, self._cpu_began = time.perf_counter(), time.process_time()

    def result(self) -> dict[str, Any]:
        """The rate, and the CPU of this process and of the server."""
        seconds, cpu = time.perf_counter() - self._began, time.process_time() - self._cpu_began
        return {
            "seconds": seconds,
            "per_second": self._jobs / seconds,
            "cpu_us_per_job": cpu / self._jobs * 1e6,
            "server_us_per_job": self._server.microseconds_since(self._server_began, self._jobs),
        }


def rate(jobs: int, url: str, work: Callable[[], object]) -> dict[str, Any]:
    """How many jobs per second ``work`` gets through."""
    timed = Timed(jobs, url)
    work()
    return timed.result()
