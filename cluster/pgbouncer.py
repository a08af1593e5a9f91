"""PgBouncer in transaction mode, in front of a PostgreSQL server."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from cluster.postgres import DATABASE, SUPERUSER, Server
from cluster.processes import Failed, give_to_server, kill_tree, server_user, start, wait_for


class PgBouncer:
    """A pooler on a port of its own."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.log = folder / "pgbouncer.log"
        self._settings = folder / "pgbouncer.ini"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of the database through the pooler."""
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/{DATABASE}"

    def start(self, server: Server) -> None:
        """Start in front of this server."""
        program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
        if program is None:
            raise Failed("pgbouncer is not installed: sh cluster/ensure_servers.sh installs it on Debian")
        (self.folder / "users.txt").write_text(f'"{SUPERUSER}" ""\n')
        self._settings.write_text(
            f"""[databases]
{DATABASE} = host=127.0.0.1 port={server.port} dbname={DATABASE}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = trust
auth_file = {self.folder / "users.txt"}
pool_mode = transaction
default_pool_size = 8
max_client_conn = 200
server_login_retry = 1
ignore_startup_parameters = extra_float_digits
"""
        )
        give_to_server(self.folder)
        self._process = start([program, str(self._settings)], log=self.log, user=server_user(), folder=self.folder)
        wait_for("pgbouncer answers", self._answers)

    def kill(self) -> None:
        """Kill it (-9); it can be started again."""
        if self._process is not None:
            kill_tree(self._process)
            self._process = None

    def _answers(self) -> bool:
        import psycopg

        try:
            with psycopg.connect(self.url, connect_timeout=5) as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False
