"""PostgreSQL behind PgBouncer in transaction mode: the pooler and the server are killed and started again."""

from __future__ import annotations

from pathlib import Path

from cluster.load import Load
from cluster.pgbouncer import PgBouncer
from cluster.postgres import Server
from cluster.progress import say, title


def run(folder: Path, ports: list[int]) -> None:
    """Workers and producers know the pooler alone."""
    title("PostgreSQL behind PgBouncer in transaction mode")
    server, pooler = Server(folder, "server", ports[0]), PgBouncer(folder, ports[1])
    load = Load(folder, [pooler.url], pooler=True)
    try:
        server.create()
        pooler.start(server)
        load.prepare()
        load.start(workers=3, producers=2)
        load.wait_for_jobs("jobs before the faults")
        with load.log.fault("the pooler is killed"):
            pooler.kill()
            say("pgbouncer is killed (-9) under load")
            pooler.start(server)
        load.wait_for_jobs()
        say("it is back, and jobs go on")
        with load.log.fault("the server is killed"):
            server.kill()
            say("the server is killed (-9) behind it")
            (server.data / "postmaster.pid").unlink(missing_ok=True)
            server.start()
        load.wait_for_jobs()
        say("it has recovered, and jobs go on")
        load.kill_worker(0)
        load.wait_for_jobs()
        load.finish()
    finally:
        load.kill()
        pooler.kill()
        server.kill()
