"""A MariaDB server of the test run's own, in memory, shared by its processes; and databases on it that are kept.

The first process that needs the server starts it. A supervisor ends it, and removes its folder, when the run has ended,
in whatever way.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import psutil
import pymysql
from sqlalchemy import make_url

from sloppyjobs.storage.dialects.mariadb.schema import STYLE
from sloppyjobs.storage.schema.tables import Tables

SETTINGS = (
    "--no-defaults",
    # Nothing here tests the power cord; the tests kill processes, not the machine.
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--innodb-flush-method=nosync",
    "--skip-log-bin",
    "--innodb-log-file-size=64M",
    "--innodb-buffer-pool-size=128M",
    "--max-connections=600",
    "--skip-name-resolve",
    "--bind-address=127.0.0.1",
    # Statistics that come when they please would make plans differ from run to run.
    "--innodb-stats-auto-recalc=0",
)
SECONDS = 60.0
_VERSION = Tables(style=STYLE).schema_name
_OURS = sorted({table.name for table in Tables(style=STYLE).metadata.tables.values()} | {_VERSION})
_STATE = """
SELECT
  (SELECT group_concat(version_num) FROM {name}.{version}),
  (SELECT sum(crc32(concat_ws(':', table_name, column_name, ordinal_position, column_type, is_nullable,
      collation_name, generation_expression))) FROM information_schema.columns WHERE table_schema = '{name}'),
  (SELECT sum(crc32(concat_ws(':', table_name, index_name, seq_in_index, column_name, non_unique)))
    FROM information_schema.statistics WHERE table_schema = '{name}'),
  (SELECT sum(crc32(concat_ws(':', table_name, engine, table_collation)))
    FROM information_schema.tables WHERE table_schema = '{name}'),
  (SELECT count(*) FROM information_schema.triggers WHERE trigger_schema = '{name}')
"""


def share_certificates() -> None:
    """Let the connections of this process share the certificates that each of them reads, for a server that has none.

    Reading those of the whole world took longer than most tests.
    """
    made_alone = pymysql.connections.Connection._create_ssl_ctx
    shared: list[Any] = []

    def made(connection: Any, wanted: Any) -> Any:
        if wanted:
            return made_alone(connection, wanted)
        if not shared:
            shared.append(made_alone(connection, wanted))
        return shared[0]

    pymysql.connections.Connection._create_ssl_ctx = made


def program(name: str) -> str | None:
    """Where a program of the server is; Debian keeps the server itself where only root looks."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def shared_server(folder: Path, run: int, in_memory: str | None) -> str:
    """The URL of the server of a test run, whose process is ``run``; it is started by the first who asks."""
    address = folder / "mariadb.url"
    with (folder / "mariadb.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not address.exists():
            address.write_text(_started(run, in_memory))
    return address.read_text()


def _started(run: int, in_memory: str | None) -> str:
    home = tempfile.mkdtemp(prefix="sloppy-mariadb-", dir=in_memory)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, home, str(port), str(run)]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True)
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            pymysql.connect(host="127.0.0.1", port=port, user="root").close()
        except pymysql.err.OperationalError as error:
            # Its folder is gone with a server that has ended.
            if not Path(home).exists() or time.monotonic() > deadline:
                raise RuntimeError(f"mariadbd did not start: {error}") from error
            time.sleep(0.05)
        else:
            return f"mysql+pymysql://root@127.0.0.1:{port}/"


def _supervise(home: str, port: int, run: int) -> None:
    """Run a server until the process of the test run is gone."""
    watched = psutil.Process(run)
    # A server removes the temporary tables that it finds when it starts: those of others, in a folder that is shared.
    data, temporary = Path(home, "data"), Path(home, "tmp")
    data.mkdir()
    temporary.mkdir()
    user = []
    if os.geteuid() == 0:
        for folder in (home, data, temporary):
            shutil.chown(folder, "mysql")
        user = ["--user=mysql"]
    quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
    folders = [f"--datadir={data}", f"--tmpdir={temporary}"]
    install = [program("mariadb-install-db"), *SETTINGS, *user, *folders]
    server = None
    try:
        subprocess.run([*install, "--auth-root-authentication-method=normal", "--skip-test-db"], check=True, **quiet)  # type: ignore[list-item]
        places = [*folders, f"--socket={home}/socket", f"--port={port}", f"--log-error={home}/log"]
        server = subprocess.Popen([program("mariadbd"), *SETTINGS, *user, *places], **quiet)  # type: ignore[list-item]
        while server.poll() is None and watched.is_running() and watched.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.2)
    except psutil.NoSuchProcess:
        pass
    finally:
        if server is not None:
            # What it would write down while it shuts down is removed anyhow.
            server.kill()
            server.wait()
        shutil.rmtree(home, ignore_errors=True)


class MariaDbServer:
    """A MariaDB server: makes and drops databases over one connection."""

    def __init__(self, url: str) -> None:
        self.url = make_url(url)
        self._connection = pymysql.connect(
            host=self.url.host,
            port=self.url.port or 3306,
            user=self.url.username,
            password=self.url.password or "",
            autocommit=True,
        )
        self._numbers = itertools.count()

    def url_of(self, name: str) -> str:
        """The URL of a database."""
        return self.url.set(database=name).render_as_string(hide_password=False)

    def rows(self, statement: str) -> list[Any]:
        """Run a statement."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def create(self) -> str:
        """The name of a new database."""
        name = f"sloppy_{os.getpid()}_{next(self._numbers)}"
        self.rows(f"CREATE DATABASE {name}")
        return name

    def drop(self, name: str) -> None:
        """Drop a database, whoever is connected to it."""
        self.disconnect(name)
        self.rows(f"DROP DATABASE {name}")

    def disconnect(self, name: str) -> None:
        """End whoever is connected to a database."""
        for (number,) in self.rows(f"SELECT id FROM information_schema.processlist WHERE db = '{name}'"):
            try:
                self.rows(f"KILL {number}")
            except pymysql.err.OperationalError as error:
                if error.args[0] != 1094:  # gone already
                    raise

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of an empty database for a while."""
        name = self.create()
        yield self.url_of(name)
        self.drop(name)


class KeptMariaDbs:
    """Databases with the schema in place: emptied after a test instead of made anew, unless it altered them."""

    def __init__(self, server: MariaDbServer, template: str) -> None:
        self._server = server
        self._template = template
        self._used: deque[str] = deque()
        self._expected = self._state(template)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        while self._used:
            self._server.drop(self._used.pop())

    def take(self) -> str:
        """The name of an empty database of one's own."""
        # Not the one that was given back last, to which somebody may still be about to connect.
        while len(self._used) > 1:
            name = self._used.popleft()
            if self._emptied(name):
                return name
            self._server.drop(name)
        return self.make()

    def make(self) -> str:
        """The name of a new one."""
        name = self._server.create()
        for table in _OURS:
            self._server.rows(f"CREATE TABLE {name}.{table} LIKE {self._template}.{table}")
        self._server.rows(f"INSERT INTO {name}.{_VERSION} SELECT * FROM {self._template}.{_VERSION}")
        return name

    def give_back(self, name: str) -> None:
        """Let another test have it."""
        self._server.disconnect(name)
        self._used.append(name)

    def _emptied(self, name: str) -> bool:
        self._server.disconnect(name)
        tables = {row[0] for row in self._server.rows(f"SHOW TABLES FROM {name}")}
        for stranger in sorted(tables - set(_OURS)):
            self._server.rows(f"DROP TABLE {name}.{stranger}")
        if not tables.issuperset(_OURS) or self._state(name) != self._expected:
            return False
        used = " UNION ALL ".join(
            f"SELECT '{table}' FROM DUAL WHERE EXISTS (SELECT 1 FROM {name}.{table})"
            for table in _OURS
            if table != _VERSION
        )
        for (table,) in self._server.rows(used):
            self._server.rows(f"DELETE FROM {name}.{table}")
        return True

    def _state(self, name: str) -> Any:
        return self._server.rows(_STATE.format(name=name, version=_VERSION))


if __name__ == "__main__" and os.fork() == 0:
    os.setsid()
    _supervise(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
