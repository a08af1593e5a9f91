"""The rows in which workers say that they live, and operators what they want of them."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from sloppyjobs import errors
from sloppyjobs.domain.model import WorkerInfo
from sloppyjobs.storage.admin.audit import Audit
from sloppyjobs.storage.admin.deploys import Deploys
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.ports.deploys import NewDeploy
from sloppyjobs.storage.ports.operators import Command


def status_word(worker: WorkerInfo) -> str:
    """What stands in the column ``status``; ``WorkerRow.stuck`` reads it."""
    return f"{worker.status} stuck={worker.stuck}" if worker.stuck else worker.status


def check_wish(worker_id: str, status: str, before: str | None, wanted: str | None) -> None:
    """Refuse what a worker can do no more."""
    if status == "stopped":
        raise errors.InvalidTransition(f"worker {worker_id} has stopped")
    if wanted != "stop" and (before == "stop" or status.startswith("draining")):
        raise errors.InvalidTransition(f"worker {worker_id} is stopping")


class WorkerRows:
    """Registration, heartbeat and farewell of workers, and commands to them."""

    def __init__(self, database: Database, audit: Audit, deploys: Deploys) -> None:
        self.database = database
        self.dialect = database.dialect
        self.audit = audit
        self.deploys = deploys
        self.tables = database.tables

    def register(self, worker: WorkerInfo) -> None:
        """Write the worker's row; an id that is registered again starts anew.

        A version of the application that is not the latest deploy's becomes a deploy, whoever registers first.
        """
        self.database.ensure_schema()
        self.database.write(lambda c: self._register(c, worker))
        if worker.app_version is not None:
            self.deploys.mark(NewDeploy(worker.app_version, worker.application or "", worker_id=worker.id))

    def heartbeat(self, worker: WorkerInfo) -> str | None:
        """Say that the worker lives; a row that was cleaned away meanwhile is written again.

        Returns what an operator wants of it: ``quiet``, ``stop``, or None.
        """
        self.database.ensure_schema()
        return self.database.write(lambda c: self._heartbeat(c, worker))

    def want(self, worker_id: str, wanted: str | None, command: Command) -> bool:
        """Tell a worker by its row to be quiet or to stop, None to work; False where it was told so already.

        ``UnknownWorker`` where there is none; ``InvalidTransition`` for one that has stopped or is stopping.
        """
        self.database.ensure_schema()
        workers = self.tables.workers

        def work(connection: Connection) -> bool:
            row = workers.c.id == worker_id
            query = select(workers.c.status, workers.c.wanted).where(row)
            found = connection.execute(self.dialect.locked(query)).one_or_none()
            if found is None:
                raise errors.UnknownWorker(f"no worker has the id {worker_id}")
            check_wish(worker_id, found.status, found.wanted, wanted)
            if found.wanted == wanted:
                return False
            connection.execute(update(workers).where(row).values(wanted=wanted))
            self.audit.write(connection, command, "worker", worker_id, {})
            return True

        return self.database.write(work)

    def stop(self, worker_id: str) -> None:
        """Record that the worker has left in good order."""
        workers = self.tables.workers

        def work(connection: Connection) -> None:
            now = self.database.now(connection)
            values = {"status": "stopped", "running": 0, "stopped_at": now, "heartbeat_at": now}
            connection.execute(update(workers).where(workers.c.id == worker_id).values(values))

        self.database.write(work)

    def _register(self, connection: Connection, worker: WorkerInfo, wanted: str | None = None) -> None:
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
                wanted=wanted,
                memory=worker.memory,
                done=worker.done,
                failed=worker.failed,
                app_version=worker.app_version,
            )
        )

    def _heartbeat(self, connection: Connection, worker: WorkerInfo) -> str | None:
        workers = self.tables.workers
        values = {
            "heartbeat_at": self.database.now(connection),
            "running": worker.running,
            "status": status_word(worker),
            "names": msgspec.json.encode(worker.names).decode(),
            "memory": worker.memory,
            "done": worker.done,
            "failed": worker.failed,
        }
        row = workers.c.id == worker.id
        if connection.execute(update(workers).where(row).values(values)).rowcount == 0:
            # A worker that is quiet stays so, although the row that told it so is gone.
            wanted = "quiet" if worker.status == "quiet" else None
            self._register(connection, worker, wanted)
            return wanted
        found: str | None = connection.execute(select(workers.c.wanted).where(row)).scalar_one_or_none()
        return found
