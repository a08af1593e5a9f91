"""CPU seconds of a PostgreSQL or MariaDB server that runs on this machine."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
from sqlalchemy import create_engine, text


class ServerCpu:
    """The processes of the server behind a URL; none where it is SQLite, or runs on another machine."""

    def __init__(self, url: str) -> None:
        find = next((find for name, find in _SERVERS.items() if url.startswith(name)), None)
        self._server = None if find is None else find(url)

    def seconds(self) -> float | None:
        """What the server has used since it was started, also by processes that have ended."""
        if self._server is None:
            return None
        while True:
            children = self._server.children()
            own = self._server.cpu_times()
            used = own.user + own.system + own.children_user + own.children_system
            with suppress(psutil.NoSuchProcess):
                used += sum(times.user + times.system for times in (child.cpu_times() for child in children))
                # One that ends meanwhile is counted nowhere, or twice.
                if children == self._server.children():
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


def _mariadbd(url: str) -> psutil.Process | None:
    engine = create_engine(url)
    with engine.connect() as connection:
        data, pid_file = connection.execute(text("SELECT @@datadir, @@pid_file")).one()
    engine.dispose()
    try:
        found = psutil.Process(int((Path(data) / pid_file).read_text()))
    except (OSError, ValueError, psutil.NoSuchProcess):
        return None
    return found if found.name() in ("mariadbd", "mysqld") else None


_SERVERS = {"postgresql": _postmaster, "mysql": _mariadbd, "mariadb": _mariadbd}
