"""Forms of the admin pages: whoever sends one first does it, and what it was answered is kept for the others."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, select, update

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.ports.operators import SentForm


class FormKeys:
    """One row for each form that was sent lately."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables

    def claim(self, key: str, claimed_by: str) -> SentForm:
        """Take a key that nobody has taken. The row says whose it is, so that a lost answer does no harm."""
        self.database.ensure_schema()
        return self.database.write(lambda connection: self._claim_form(connection, key, claimed_by))

    def sent(self, key: str) -> SentForm | None:
        """Who has taken a key; None where it was given back."""
        self.database.ensure_schema()
        return self.database.read(lambda connection: self._sent_form(connection, key))

    def finish(self, key: str, claimed_by: str, answer: str) -> None:
        """Keep the answer for whoever sends the form again."""
        self.database.ensure_schema()
        keys = self.tables.form_keys
        mine = (keys.c.key == key, keys.c.claimed_by == claimed_by)
        self.database.write(lambda c: c.execute(update(keys).where(*mine).values(answer=answer)))

    def release(self, key: str, claimed_by: str) -> None:
        """Give a key back: nothing was done, and the form may be sent again."""
        self.database.ensure_schema()
        keys = self.tables.form_keys
        self.database.write(lambda c: c.execute(delete(keys).where(keys.c.key == key, keys.c.claimed_by == claimed_by)))

    def remove(self, before: datetime, limit: int) -> int:
        """Remove up to ``limit`` keys that were taken before an instant, the oldest first."""
        c = self.tables.form_keys.c
        oldest = select(c.key).where(c.created_at < before).order_by(c.created_at).limit(limit)

        def work(connection: Connection) -> int:
            keys = list(connection.execute(oldest).scalars())
            gone = delete(self.tables.form_keys).where(c.key.in_(keys))
            return connection.execute(gone).rowcount if keys else 0

        return self.database.write(work)

    def _claim_form(self, connection: Connection, key: str, claimed_by: str) -> SentForm:
        values = {
            "key": key,
            "claimed_by": claimed_by,
            "created_at": self.database.to_driver(self.database.now(connection)),
        }
        self.database.prepared("insert form key", self._insert_form_key).run(cursor_of(connection), values)
        found = self._sent_form(connection, key)
        # A row that is there and yet not seen was taken by somebody whose transaction began after ours.
        return SentForm("", 0.0, None) if found is None else found

    def _sent_form(self, connection: Connection, key: str) -> SentForm | None:
        c = self.tables.form_keys.c
        row = connection.execute(select(c.claimed_by, c.created_at, c.answer).where(c.key == key)).one_or_none()
        if row is None:
            return None
        return SentForm(row.claimed_by, (self.database.now(connection) - row.created_at).total_seconds(), row.answer)

    def _insert_form_key(self) -> Any:
        return self.dialect.insert_if_absent(self.tables.form_keys, ("key", "claimed_by", "created_at"))
