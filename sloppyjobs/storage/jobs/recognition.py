"""Recognising, in a transaction that is run again, what its earlier run had committed before its answer was lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Select, select

from sloppyjobs.domain.model import Settlement
from sloppyjobs.storage.database import cursor_of
from sloppyjobs.storage.jobs.insert import Enqueue
from sloppyjobs.storage.jobs.unanswered import Unanswered
from sloppyjobs.storage.unavailable import StorageUnavailable

if TYPE_CHECKING:
    from sloppyjobs.storage.ports.claims import ClaimRequest

T = TypeVar("T")


class Recognising(Enqueue):
    """Transactions that settle or claim, and how attempts ended."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.unanswered = Unanswered()

    def settling(
        self,
        settlements: Sequence[Settlement],
        work: Callable[[Connection, bool], T],
        claim: ClaimRequest | None = None,
    ) -> T:
        """As ``write``, for work that settles these or claims: what may have been committed unheard is remembered.

        ``work`` is told whether an earlier run of it may have been committed.
        """
        rerun = False

        def once() -> T:
            nonlocal rerun
            try:
                return self._write_once(lambda connection: work(connection, rerun))
            except StorageUnavailable as error:
                if error.maybe_done:
                    rerun = True
                    self.unanswered.add(settlements)
                raise

        try:
            done = self._again(once)
        except Exception:
            self.unanswered.add(settlements)
            if claim is not None:
                self.unanswered.add_claim(claim)
            raise
        self.unanswered.forget(settlements)
        return done

    def _settled_before(self, connection: Connection, doubtful: Sequence[Settlement]) -> set[str]:
        """The jobs whose outcome is that of these settlements, whose answers were lost."""
        ends = self._ends(connection, [one.job_id for one in doubtful])
        return {
            one.job_id
            for one in doubtful
            if ends.get((one.job_id, one.attempt), ())[:2] == (one.worker_id, one.decision.attempt.value)
        }

    def _ends(self, connection: Connection, ids: Sequence[str]) -> dict[tuple[str, int], tuple[str, str, Any]]:
        """How the attempts of these jobs ended: by whose hand, in which status, and when, as the driver says it."""
        query = self.prepared("ends of attempts", self._ends_of_attempts)
        found = query.rows(cursor_of(connection), {"ids": self.list_param(ids)})
        return {(row[0], row[1]): (row[2], row[3], row[4]) for row in found}

    def _ends_of_attempts(self) -> Select[Any]:
        c = self.tables.attempts.c
        query = select(c.job_id, c.attempt_number, c.worker_id, c.status, c.finished_at)
        return query.where(self.any_of(c.job_id, "ids"))
