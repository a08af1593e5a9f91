"""A sampling profiler for the threads of a draining worker."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from types import FrameType
from typing import Any

import psutil

from benchmarks import ours

INTERVAL = 0.001
TOP = 14


class Sampler:
    """Looks at every thread's stack a thousand times a second."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._itself: Counter[tuple[str, str]] = Counter()
        self._whole: Counter[tuple[str, str]] = Counter()
        self._total: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._watch, name="sampler", daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        me = threading.get_ident()
        while not self._stop.wait(INTERVAL):
            names = {thread.ident: _kind(thread.name) for thread in threading.enumerate()}
            for ident, frame in sys._current_frames().items():
                kind = names.get(ident, "?")
                if ident != me and not kind.startswith("sampler"):
                    self._count(kind, frame)

    def _count(self, thread: str, frame: FrameType | None) -> None:
        self._total[thread] += 1
        assert frame is not None
        self._itself[thread, _where(frame)] += 1
        seen = set()
        while frame is not None:
            seen.add(_where(frame))
            frame = frame.f_back
        for function in seen:
            self._whole[thread, function] += 1

    def functions(self) -> list[tuple[str, str, float, float]]:
        """The top of each kind of thread: its name, the function, its own share and its whole share."""
        found = []
        for thread, total in self._total.most_common(4):
            mine = [(key[1], count) for key, count in self._whole.items() if key[0] == thread]
            mine.sort(key=lambda item: (-self._itself[thread, item[0]], -item[1]))
            for function, count in mine[:TOP]:
                found.append((thread, function, self._itself[thread, function] / total, count / total))
        return found


class ThreadTimes:
    """CPU seconds by kind of thread; read again and again, because threads take their times with them."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._latest: dict[int, tuple[str, float]] = {}
        self._thread = threading.Thread(target=self._watch, name="sampler-times", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        process = psutil.Process(os.getpid())
        while not self._stop.wait(0.05):
            names = {thread.native_id: _kind(thread.name) for thread in threading.enumerate()}
            for thread in process.threads():
                if thread.id in names:
                    self._latest[thread.id] = (names[thread.id], thread.user_time + thread.system_time)

    def totals(self) -> list[tuple[str, float]]:
        """Kinds and seconds, the largest first."""
        self._stop.set()
        spent: Counter[str] = Counter()
        for name, seconds in self._latest.values():
            spent[name] += seconds
        return spent.most_common()


def drain(url: str, jobs: int, handlers: str) -> dict[str, Any]:
    """Drain under the sampler; with the CPU seconds of each kind of thread."""
    times = ThreadTimes()
    with Sampler() as sampler:
        result = ours.drain(url, jobs, handlers)
    return {**result, "threads": times.totals(), "functions": sampler.functions()}


def _kind(name: str) -> str:
    """Threads of one pool differ in a number at the end."""
    return name.rstrip("0123456789").rstrip("-_ (") or name


def _where(frame: FrameType) -> str:
    code = frame.f_code
    file = code.co_filename.rsplit("/", 1)[-1]
    return f"{file}:{code.co_qualname}" if hasattr(code, "co_qualname") else f"{file}:{code.co_name}"
