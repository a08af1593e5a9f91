"""The rows in which workers say that they live."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, delete, insert, update

from sloppyjobs.domain.model import WorkerInfo
from sloppyjobs.storage.database import Database


def status_word(worker: WorkerInfo) -> str:
    """What stands in the column ``status``; ``WorkerRow.stuck`` reads it."""
    return f"{worker.status} stuck={worker.stuck}" if worker.stuck else worker.status


class WorkerRows:
    """Registration, heartbeat and farewell of workers."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.tables = database.tables

    def register(self, worker: WorkerInfo) -> None:
        """Write the worker's row; an id that is registered again starts anew."""
        self.database.ensure_schema()
        self.database.write(lambda c: self._register(c, worker))

    def heartbeat(self, worker: WorkerInfo) -> None:
        """Say that the worker lives; a row that was cleaned away meanwhile is written again."""
        self.database.write(lambda c: self._heartbeat(c, worker))

    def stop(self, worker_id: str) -> None:
        """Record that the worker has left in good order."""
        workers = self.tables.workers

        def work(connection: Connection) -> None:
            now = self.database.now(connection)
            values = {"status": "stopped", "running": 0, "stopped_at": now, "heartbeat_at": now}
            connection.execute(update(workers).where(workers.c.id == worker_id).values(values))

        self.database.write(work)

    def _register(self, connection: Connection, worker: WorkerInfo) -> None:
        workers = self.tables.workers
        now = self.database.now(connection)
        connection.execute(delete(workers).where(workers.c.id == worker.id))
        connection.execute(
            insert(workers).values(
                id=worker.id,
                hostname=worker.hostname,
                pid=worker.pid,
                queues=msgspec.json.encode(worker.queues).decode(),
                names=msgspec.json.encode(worker.names).decode(),
                concurrency=worker.concurrency,
                heartbeat_seconds=worker.heartbeat,
                version=worker.version,
                status=status_word(worker),
                running=worker.running,
                started_at=now,
                heartbeat_at=now,
            )
        )

    def _heartbeat(self, connection: Connection, worker: WorkerInfo) -> None:
        workers = self.tables.workers
        values = {
            "heartbeat_at": self.database.now(connection),
            "running": worker.running,
            "status": status_word(worker),
            "names": msgspec.json.encode(worker.names).decode(),
        }
        if connection.execute(update(workers).where(workers.c.id == worker.id).values(values)).rowcount == 0:
            self._register(connection, worker)
