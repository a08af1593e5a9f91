"""Nodes of a Galera cluster on loopback: MariaDB servers that accept writes everywhere."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pymysql

from cluster.processes import Failed, give_to_server, kill_tree, run, server_user, start, wait_for

DATABASE = "cluster"
PROVIDER = Path("/usr/lib/galera/libgalera_smm.so")
SERVER = Path("/usr/sbin/mariadbd")
INSTALL = Path("/usr/bin/mariadb-install-db")


class Node:
    """One node, with ports of its own for SQL, the group, incremental and full state transfer."""

    def __init__(self, folder: Path, name: str, ports: list[int]) -> None:
        self.name = name
        self.port, self._group, self._ist, self._sst = ports
        self.data = folder / name
        self.log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def group_address(self) -> str:
        """Where the other nodes find it."""
        return f"127.0.0.1:{self._group}"

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"mariadb+pymysql://root@127.0.0.1:{self.port}/{DATABASE}"

    def create(self) -> None:
        """Make an empty data folder."""
        for needed in (SERVER, INSTALL, PROVIDER):
            if not needed.exists():
                raise Failed(f"{needed} is missing: sh cluster/ensure_servers.sh installs it on Debian")
        self.data.mkdir()
        give_to_server(self.data)
        run(
            [str(INSTALL), "--no-defaults", f"--datadir={self.data}", "--auth-root-authentication-method=normal"],
            log=self.log,
            user=server_user(),
        )

    def start(self, others: list[Node], *, first: bool = False) -> None:
        """Start and wait until it is synced; ``first`` begins a new cluster, another joins those that are there."""
        members = "" if first else ",".join(node.group_address for node in others)
        provider = ";".join(
            (
                f"gmcast.listen_addr=tcp://{self.group_address}",
                f"base_port={self._group}",
                f"ist.recv_addr=127.0.0.1:{self._ist}",
                "gcache.size=64M",
                # A node that does not answer is left out after seconds, as in a network of one's own.
                "evs.keepalive_period=PT0.5S",
                "evs.suspect_timeout=PT2S",
                "evs.inactive_timeout=PT5S",
            )
        )
        command = [
            str(SERVER),
            "--no-defaults",
            f"--datadir={self.data}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self.data}/sql.sock",
            f"--pid-file={self.data}/server.pid",
            "--binlog-format=ROW",
            "--default-storage-engine=InnoDB",
            "--innodb-autoinc-lock-mode=2",
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-buffer-pool-size=64M",
            "--character-set-server=utf8mb4",
            "--skip-log-bin",
            "--max-connections=200",
            "--wsrep-on=ON",
            f"--wsrep-provider={PROVIDER}",
            f"--wsrep-provider-options={provider}",
            "--wsrep-cluster-name=sloppyjobs",
            f"--wsrep-cluster-address=gcomm://{members}",
            f"--wsrep-node-name={self.name}",
            "--wsrep-node-address=127.0.0.1",
            "--wsrep-sst-method=rsync",
            f"--wsrep-sst-receive-address=127.0.0.1:{self._sst}",
            "--wsrep-slave-threads=2",
        ]
        if first:
            command.append("--wsrep-new-cluster")
        self._process = start(command, log=self.log, user=server_user(), folder=self.data)
        wait_for(f"{self.name} is synced", self.is_synced)

    def kill(self) -> None:
        """Kill it (-9)."""
        if self._process is not None:
            kill_tree(self._process)
            self._process = None

    def isolate(self, *, isolated: bool) -> None:
        """Cut the node off from the others, or let it back; clients still reach it."""
        self.execute(f"SET GLOBAL wsrep_provider_options = 'gmcast.isolate={int(isolated)}'")

    def is_synced(self) -> bool:
        """Whether it is a part of the cluster and up to date."""
        return self.status("wsrep_local_state_comment") == "Synced" and self.is_primary()

    def is_primary(self) -> bool:
        """Whether it belongs to the majority."""
        return self.status("wsrep_cluster_status") == "Primary"

    def size(self) -> int:
        """How many nodes it sees."""
        return int(self.status("wsrep_cluster_size") or 0)

    def status(self, name: str) -> str | None:
        """One of its status variables; None while it does not answer."""
        if self._process is not None and self._process.poll() is not None:
            raise Failed(f"{self.name} ended with {self._process.returncode}; its log is {self.log}")
        try:
            rows = self.execute(f"SHOW GLOBAL STATUS LIKE '{name}'")
        except pymysql.MySQLError:
            return None
        return None if not rows else str(rows[0][1])

    def execute(self, statement: str) -> Any:
        """Run a statement by itself."""
        connection = pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", autocommit=True, connect_timeout=5, read_timeout=30
        )
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall()
        finally:
            connection.close()
