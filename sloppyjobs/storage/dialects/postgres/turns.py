"""Turns on PostgreSQL: settlement and claim go side by side, each in a transaction and on a connection of its own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC
from functools import lru_cache, partial
from typing import Any, NamedTuple

from sqlalchemy.exc import DBAPIError

from sloppyjobs.domain.model import Claim, Settlement
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.postgres import settle_values, statements
from sloppyjobs.storage.dialects.postgres.arrays import Texts, taking_arrays
from sloppyjobs.storage.dialects.postgres.autocommit_pool import AutocommitPool
from sloppyjobs.storage.dialects.postgres.claim_answers import any_limited, met_limited
from sloppyjobs.storage.dialects.postgres.settle_statements import Hanging
from sloppyjobs.storage.dialects.postgres.settle_values import Split
from sloppyjobs.storage.dialects.postgres.statements import array_text
from sloppyjobs.storage.dialects.postgres.worker_turns import PostgresTurns
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.claim import Claims, Taken
from sloppyjobs.storage.jobs.damaged_rows import salvage_claims
from sloppyjobs.storage.jobs.lanes import Lanes
from sloppyjobs.storage.jobs.permits import Permits
from sloppyjobs.storage.jobs.promote import Promotion
from sloppyjobs.storage.jobs.settle import Settle
from sloppyjobs.storage.jobs.unanswered import Unanswered
from sloppyjobs.storage.jobs.unread_claims import UnreadClaims
from sloppyjobs.storage.ports.claims import ALL_QUEUES, SWEEP_LIMIT, ClaimRequest
from sloppyjobs.storage.unavailable import StorageUnavailable

LIMITED_CLAIMS = 100
"""For how many claims jobs under limits are expected once some were met, if no claim finds only others; and jobs that
become due and on which something hangs."""

_CLAIMED_AT = rows.CLAIM_FIELDS.index("updated_at")
_FIELDS = len(rows.CLAIM_FIELDS)


_NO_CHILDREN: dict[str, Any] = {"room": 0, "lease": 0.0, "queues": None, "names": None}


class Call(NamedTuple):
    """A statement and its values; and those that follow it in the same transaction, with the same values."""

    statement: str
    values: dict[str, Any]
    then: tuple[str, ...] = ()


class Settled(NamedTuple):
    """What a settlement was answered with."""

    accepted: set[str]
    children: Sequence[Claim] = ()
    """The children that it has claimed."""
    able: int | None = None
    """How many it could have claimed, had there been room; None where it was not to claim any."""


class PostgresClaims(Claims):
    """Settling and claiming by single set-based statements of psycopg 3."""

    def __init__(
        self,
        database: Database,
        lanes: Lanes,
        settlement: Settle,
        unanswered: Unanswered,
        permits: Permits,
        *,
        pool: AutocommitPool,
        sql: statements.Statements,
    ) -> None:
        super().__init__(database, lanes, settlement, unanswered, permits)
        self._pool = pool
        self._sql = sql
        self._limited_claims = 0
        self._flagged_claims = 0
        self._more_due = False
        self.promotion = PostgresPromotion(self, sql.promote)

    def turns(self) -> PostgresTurns:
        """What is begun is sent at once: the server works on it, and we on something else."""
        return PostgresTurns(self)

    def claim(self, request: ClaimRequest) -> list[Claim]:
        """One statement: rows, attempts and events."""
        self.database.ensure_schema()
        return list(self.turn((), request)[1])

    def settle(self, settlements: Sequence[Settlement]) -> set[str]:
        """One statement for successes, one for all others; sent again after a transient fault."""
        self.database.ensure_schema()
        split = settle_values.split(settlements)

        def attempt() -> list[Any]:
            try:
                return self.send(*self.settle_calls(split)).answers()
            except StorageUnavailable as error:
                if error.maybe_done:
                    self.unanswered.add(settlements)
                raise

        return self._settled(self.database.retry(attempt), settlements, split).accepted if settlements else set()

    def turn(self, settlements: Sequence[Settlement], request: ClaimRequest | None) -> tuple[set[str], Sequence[Claim]]:
        """Settle and claim at the same time."""
        turns = self.turns()
        try:
            if request is not None:
                turns.begin_claim(request)
            if settlements:
                turns.begin_settle(settlements)
            return turns.settled() if settlements else set(), turns.claimed() if request is not None else []
        finally:
            turns.close()

    def send(self, *calls: Call) -> SentTransactions:
        """Send these calls together on a connection of their own, each as a transaction.

        It ends by a word of its own. Without one it would last until the pipeline is left, which may be when another
        transaction of this worker, that waits for its rows, has ended.
        """
        with ExitStack() as stack:
            driver = stack.enter_context(self._pool.checkout()).driver
            stack.enter_context(driver.pipeline())
            cursors = []
            for statement, values, then in calls:
                # A statement that follows another looks at what was committed meanwhile.
                driver.execute("BEGIN ISOLATION LEVEL READ COMMITTED" if then else "BEGIN")
                driver.execute(statements.PLAN_BY_INDEX, prepare=True)
                cursors.append(taking_arrays(driver.cursor(binary=True)))
                cursors[-1].execute(statement, values, prepare=True)
                for following in then:
                    taking_arrays(driver.cursor(binary=True)).execute(following, values, prepare=True)
                driver.execute("COMMIT")
            return SentTransactions(stack.pop_all(), cursors)

    def settled(
        self,
        sent: SentTransactions | None,
        settlements: Sequence[Settlement],
        split: Split,
        children: ClaimRequest | None,
    ) -> Settled:
        """What was accepted; what was not answered is sent again, and finds its own outcome if it is there.

        The children that were claimed without an answer are found by the next claim.
        """
        try:
            answers = self._answered(sent)
            if answers is None:
                self.lost(settlements, children)
                children = None
                answers = self.database.retry(lambda: self.send(*self.settle_calls(split)).answers())
            return self._settled(answers, settlements, split, children)
        except Exception:
            self.lost(settlements, children)
            raise

    def lost(self, settlements: Sequence[Settlement], children: ClaimRequest | None = None) -> None:
        """These may have been written, and nobody was told."""
        self.unanswered.add(settlements)
        if children is not None:
            self.unanswered.add_claim(children)

    def _settled(
        self,
        answers: list[Any],
        settlements: Sequence[Settlement],
        split: Split,
        children: ClaimRequest | None = None,
    ) -> Settled:
        parts, batches, limited = split
        try:
            numbered = [answer.fetchone() for answer in answers[: len(parts)]]
            asked = iter(answers[len(parts) :])
            over = [row[0] for row in next(asked).fetchall()] if batches else []
            lines = next(asked).fetchall() if limited else []
            # Mostly all of them, and then nobody needs to say which.
            if sum(row[-2] for row in numbered) == len(settlements):
                accepted = {s.job_id for s in settlements}
            else:
                accepted = set()
                for row, (_, _, part) in zip(numbered, parts, strict=True):
                    number, ids = row[-2:]
                    accepted.update([s.job_id for s in part] if number == len(part) else ids or ())
                # Something hangs on these, or they are stale, or an earlier answer was lost.
                if rest := [s for s in settlements if s.job_id not in accepted]:
                    accepted |= self.settlement.settle(rest)
        except Exception:
            self.unanswered.add(settlements)
            raise
        if self.unanswered.settlements:
            self.unanswered.forget(settlements)
        if over:
            self.settlement.followups.members_ended(over)
        if lines:
            self.permits.release(lines)
        place = split.parents()
        if place is None or children is None:
            return Settled(accepted)
        answer = answers[place]
        read = partial(self._read_children, children.worker_id, answer)
        return Settled(accepted, UnreadClaims(answer.rowcount - 1, read), numbered[place][-3])

    def claimed(self, sent: SentTransactions | None, request: ClaimRequest) -> Sequence[Claim]:
        """What was claimed; a claim that was not answered is looked for, and sent again if it is not there."""

        def again() -> Any:
            found = self.database.read_once(lambda c: self.claimed_before(c, request))
            return found or self.send(self.claim_call(request)).answers()[0]

        try:
            answers = self._answered(sent)
            *before, answer = [self.database.retry(again)] if answers is None else answers
        except Exception:
            self.unanswered.add_claim(request)
            raise
        if self.unanswered.claims:
            self.unanswered.forget_claim(request)
        if before:
            promoted, left = before[0].fetchone()
            self._more_due = promoted >= SWEEP_LIMIT
            self._flagged_claims = LIMITED_CLAIMS if left else self._flagged_claims
        if isinstance(answer, list):
            return answer
        if not met_limited(answer):
            if self._limited_claims and answer.rowcount and not any_limited(answer):
                self._limited_claims = 0
            read = partial(self.read_claims, request.worker_id, answer)
            return UnreadClaims(answer.rowcount, read) if answer.rowcount else []
        # Of jobs that need permits the common way takes as many as there is room for, and parks the others.
        self._limited_claims = LIMITED_CLAIMS
        plain = self.read_claims(request.worker_id, answer, rows=answer.rowcount - 1) if answer.rowcount > 1 else []
        return self.claim_more(request, Taken(plain, again=True))

    @property
    def promotes(self) -> bool:
        """Whether claims can promote: for a while they leave it to sweeps, once jobs were due that need more."""
        return not self._flagged_claims

    def claim_calls(self, request: ClaimRequest) -> list[Call]:
        """The statement that claims; before it, where it is asked for, the one that queues what has become due."""
        claim = self.claim_call(request)
        self._flagged_claims = max(0, self._flagged_claims - 1)
        if not (request.promote or self._more_due):
            return [claim]
        return [Call(self._sql.promote, {"most": SWEEP_LIMIT, "now": self.database.injected_now()}), claim]

    def _answered(self, sent: SentTransactions | None) -> list[Any] | None:
        """The cursors with the answers; None where they were lost."""
        if sent is None:
            return None
        try:
            return sent.answers()
        except DBAPIError as error:
            if not self.dialect.is_transient(error):
                raise
            return None

    def settle_calls(self, split: Split, children: ClaimRequest | None = None) -> list[Call]:
        """The statements for this mixture of outcomes, and their values: one for successes, one for all others.

        Jobs on which something hangs have two of their own for each kind of thing. Questions come last: which of the
        batches are over, and in which lines of limits somebody waits. Children that start are claimed by their request.

        Each is a transaction. In one for both, rows would be locked in id order twice, and not in id order as a
        whole: others who lock several rows, as commands and heartbeats do, could then wait for it in a ring. One
        statement for both costs each success a fifth more.
        """
        now = {"now": self.database.injected_now()}
        calls = []
        for hanging, success, part in split.parts:
            ordered = sorted(part, key=lambda s: s.job_id)
            successes, others, then = self._sql.settle[hanging]
            if success:
                values = settle_values.successes(ordered) | now
                if hanging is Hanging.GRAPH:
                    values |= _NO_CHILDREN if children is None else self._claim_values(children, "room")
                calls.append(Call(successes, values, then))
            else:
                calls.append(Call(others, settle_values.others(ordered) | now, then))
        if split.batches:
            # After the commits: of two workers that settle the last members, the later one sees none.
            calls.append(Call(self._sql.over_batches, {"batches": array_text(split.batches)}))
        if split.limited:
            # After the commits as well: who has parked a job meanwhile has not seen these permits come back.
            calls.append(Call(self._sql.lines, {"ids": array_text(split.limited)}))
        return calls

    def claim_call(self, request: ClaimRequest) -> Call:
        """The statement that claims, and its values."""
        values = self._claim_values(request, "most")
        if self._limited_claims:
            self._limited_claims -= 1
            return Call(self._sql.claim_limited, values)
        return Call(self._sql.claim, values)

    def _claim_values(self, request: ClaimRequest, limit: str) -> dict[str, Any]:
        """What a statement that claims takes; it has its own name for the number."""
        return {
            "worker": request.worker_id,
            "queues": None if ALL_QUEUES in request.queues else _texts(frozenset(request.queues)),
            "names": None if request.names is None else _texts(frozenset(request.names)),
            limit: request.limit,
            "lease": request.lease,
            "now": self.database.injected_now(),
        }

    def read_claims(self, worker_id: str, answer: Any, rows: int | None = None) -> list[Claim]:
        """The claims in an answer that has some, or in its first ``rows``.

        A damaged row among them costs a second look, at all of them.
        """
        try:
            return self.as_claims(worker_id, answer.fetchall()[:rows])
        except Exception as error:
            unreadable = error
            if not self.dialect.is_unreadable(error):
                raise
        return self._salvage(worker_id, answer, range(rows or answer.rowcount), unreadable)

    def _read_children(self, worker_id: str, answer: Any) -> list[Claim]:
        """The same of the answer of a settlement, which begins with its numbers, and has columns for these."""
        try:
            found = [row[:_FIELDS] for row in answer.fetchall()]
            return self.as_claims(worker_id, found) if found else []
        except Exception as error:
            if not self.dialect.is_unreadable(error):
                raise
            return self._salvage(worker_id, answer, range(1, answer.rowcount), error)

    def _salvage(self, worker_id: str, answer: Any, places: range, error: Exception) -> list[Claim]:
        # The ids as they came, because no row of this answer can be had from the driver while one cannot.
        ids = [bytes(answer.pgresult.get_value(place, 0)).decode() for place in places]
        return self.database.read(lambda connection: salvage_claims(self.dialect, connection, ids, worker_id, error))

    def as_claims(self, worker_id: str, found: Sequence[Any]) -> list[Claim]:
        """The claims in the rows of an answer that has some."""
        # On connections of our own making every instant is in UTC already.
        in_utc = found[0][_CLAIMED_AT].tzinfo is UTC
        return rows.claims(found, worker_id, rows.as_is if in_utc else self.database.from_driver)


@lru_cache(maxsize=16)
def _texts(words: frozenset[str]) -> Texts:
    """The same for every claim of a worker, which may know a thousand names."""
    return Texts(sorted(words))


class PostgresPromotion(Promotion):
    """By one statement, in one round trip: the loop of a worker waits for it."""

    def __init__(self, claims: PostgresClaims, statement: str) -> None:
        super().__init__(claims.database, claims.settlement.followups)
        self._claims = claims
        self._statement = statement

    def promote(self, limit: int) -> int:
        """Queue plain jobs here; those on which something hangs by the common way."""
        values = {"most": limit, "now": self.database.injected_now()}
        [answer] = self.database.retry(lambda: self._claims.send(Call(self._statement, values)).answers())
        promoted, left = answer.fetchone()
        return int(promoted) + (super().promote(limit) if left else 0)


class SentTransactions:
    """Transactions that were sent together and have not been waited for."""

    def __init__(self, stack: ExitStack, cursors: list[Any]) -> None:
        self._stack = stack
        self._cursors = cursors

    def answers(self) -> list[Any]:
        """Wait for them, give the connection back, and return the cursors with the answers."""
        self._stack.close()
        return self._cursors
