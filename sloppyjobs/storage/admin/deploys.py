"""The rows of deploys. Each takes the number after the latest, and no number is given twice.

So of any number who mark the same version at once, one writes it. The others find the number taken, look again in a
new transaction, and see that the version is there.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, delete, select

from sloppyjobs import errors
from sloppyjobs.storage.admin.audit import Audit
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.ports.deploys import DeployRow, NewDeploy
from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.storage.ports.reads import Key
from sloppyjobs.storage.reads.keyset import Scan, scan_after

TRIES = 100
"""How often a number may be taken by somebody else: each time, another version was marked."""


class Deploys:
    """Marks of deploys."""

    def __init__(self, database: Database, audit: Audit) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.audit = audit

    def mark(self, new: NewDeploy, command: Command | None = None) -> tuple[DeployRow, bool]:
        """Write a deploy unless the latest has its version; the deploy, and whether it is new."""
        self.database.ensure_schema()
        for _ in range(TRIES):
            marked = self.database.write(lambda c: self._mark(c, new, command))
            if marked is not None:
                return marked
        raise errors.JobsError(f"the deploy of {new.version!r:.140} was not marked: {TRIES} others came first")

    def page(self, after: Key | None, *, backward: bool, limit: int) -> list[DeployRow]:
        """Deploys beyond a number, latest first or backward."""
        self.database.ensure_schema()
        scan = Scan((), (self.tables.deploys.c.number,))
        query = scan_after(self.dialect, self._select(), scan, after, not backward).limit(limit)
        found = self.database.read(lambda c: self.database.bounded(c).execute(query).all())
        return [DeployRow._make(row) for row in found]

    def remove(self, before: datetime, limit: int) -> int:
        """Remove old deploys, the oldest first. The latest of an application stays: the next is compared with it."""
        deploys = self.tables.deploys
        c = deploys.c
        oldest = select(c.number, c.application, c.created_at).order_by(c.number).limit(limit)

        def work(connection: Connection) -> int:
            old = [row for row in connection.execute(oldest) if row.created_at < before]
            latest = (self._latest_of(connection, application) for application in {row.application for row in old})
            kept = {row.number for row in latest if row is not None}
            gone = [row.number for row in old if row.number not in kept]
            return connection.execute(delete(deploys).where(c.number.in_(gone))).rowcount if gone else 0

        return self.database.write(work)

    def _mark(self, connection: Connection, new: NewDeploy, command: Command | None) -> tuple[DeployRow, bool] | None:
        """None where somebody took the number."""
        number = self.tables.deploys.c.number
        # The number is read first. Whatever is marked after that has a higher one, so that the insertion finds it.
        last = connection.execute(select(number).order_by(number.desc()).limit(1)).scalar_one_or_none()
        found = self._latest_for(connection, new.application)
        if found is not None and found.version == new.version:
            return found, False
        row = DeployRow(
            number=(last or 0) + 1,
            application=new.application,
            version=new.version,
            note=new.note,
            actor=None if command is None else command.actor,
            worker_id=new.worker_id,
            created_at=self.database.now(connection),
        )
        values = row._asdict() | {"created_at": self.database.to_driver(row.created_at)}
        if self.database.prepared("insert deploy", self._insert).run(cursor_of(connection), values) != 1:
            return None
        if command is not None:
            self.audit.write(connection, command, "deploy", new.version, {"note": new.note} if new.note else {})
        return row, True

    def _latest_for(self, connection: Connection, application: str) -> DeployRow | None:
        """The latest deploy that concerns an application: its own, or one for all. For no application: of any."""
        if not application:
            newest = self._select().order_by(self.tables.deploys.c.number.desc()).limit(1)
            row = connection.execute(newest).first()
            return None if row is None else DeployRow._make(row)
        both = (self._latest_of(connection, name) for name in ("", application))
        return max((row for row in both if row is not None), key=lambda row: row.number, default=None)

    def _latest_of(self, connection: Connection, application: str) -> DeployRow | None:
        c = self.tables.deploys.c
        query = self._select().where(c.application == application).order_by(c.number.desc()).limit(1)
        row = connection.execute(query).first()
        return None if row is None else DeployRow._make(row)

    def _select(self) -> Select[Any]:
        return select(*(self.tables.deploys.c[name] for name in DeployRow._fields))

    def _insert(self) -> Any:
        return self.dialect.insert_if_absent(self.tables.deploys, DeployRow._fields)
