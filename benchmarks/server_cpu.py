"""CPU seconds of a PostgreSQL server that runs on this machine."""

from __future__ import annotations

from contextlib import suppress

import psutil
import psycopg


class ServerCpu:
    """The processes of the server behind a URL; none where it is no PostgreSQL, or runs on another machine."""

    def __init__(self, url: str) -> None:
        self._postmaster = _postmaster(url) if url.startswith("postgresql") else None

    def seconds(self) -> float | None:
        """What the server has used since it was started, also by processes that have ended."""
        if self._postmaster is None:
            return None
        while True:
            children = self._postmaster.children()
            own = self._postmaster.cpu_times()
            used = own.user + own.system + own.children_user + own.children_system
            with suppress(psutil.NoSuchProcess):
                used += sum(times.user + times.system for times in (child.cpu_times() for child in children))
                # One that ends meanwhile is counted nowhere, or twice.
                if children == self._postmaster.children():
                    return used

    def microseconds_since(self, before: float | None, jobs: int) -> float | None:
        """Microseconds for each of the jobs since ``before``."""
        now = self.seconds()
        return None if now is None or before is None else (now - before) / jobs * 1e6


def _postmaster(url: str) -> psutil.Process | None:
    with psycopg.connect(url.replace("postgresql+psycopg:", "postgresql:", 1)) as connection:
        (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        try:
            backend = psutil.Process(pid)
            parent = backend.parent()
        except psutil.NoSuchProcess:
            return None
        return parent if "postgres" in backend.name() else None
