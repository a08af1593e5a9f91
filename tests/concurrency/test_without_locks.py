"""Where a database locks no row that is read, the condition of the update decides: one of two writers, never both."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from kept_database import url_by
from plain_stores import UnlockedPostgres, UnlockedSqlite, database_by
from sqlalchemy import Executable, make_url, select

from sloppyjobs import Jobs
from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import Failed, Failure, Outcome, Status, Succeeded, decide
from sloppyjobs.storage import FakeClock, SqlStore
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import Prepared
from sloppyjobs.storage.jobs.commands import Commands
from sloppyjobs.storage.jobs.transitions import Transitions
from sloppyjobs.storage.ports.operators import JobState, Step, Taken

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Meeting:
    """Lets two storages read, each in its transaction, before either of them writes."""

    def __init__(self) -> None:
        self._both_have_read = threading.Barrier(2)
        self._met: set[int] = set()

    def after_reading(self) -> None:
        """Wait for the other, the first time only: a transaction that is run again goes on."""
        me = threading.get_ident()
        if me not in self._met:
            self._met.add(me)
            self._both_have_read.wait(60)


WRITES = {"succeed_jobs", "settle_jobs", "promote_jobs"}
"""The first statements that settlements and promotions write by."""


class MeetingDatabase(Database):
    """Both of two writers have read before either of them writes."""

    meeting: Meeting | None = None

    def prepared(self, key: str, build: Callable[[], Executable]) -> Prepared:
        if key in WRITES:
            self.meet()
        return super().prepared(key, build)

    def meet(self) -> None:
        if self.meeting is not None:
            self.meeting.after_reading()


class MeetingTransitions(Transitions):
    """The same for commands."""

    database: MeetingDatabase

    def write_moves(self, *arguments: Any, **named: Any) -> None:
        self.database.meet()
        super().write_moves(*arguments, **named)


class MeetingStore(SqlStore):
    """What a new dialect inherits, with nothing that keeps two writers apart before they write."""

    database: MeetingDatabase

    def __init__(self, database: MeetingDatabase) -> None:
        super().__init__(database)
        self.transitions = MeetingTransitions(database, self.deaths, self.followups)
        self.commands = Commands(database, self.transitions, self.history)


@pytest.fixture(params=["sqlite", "psycopg", "psycopg2"])
def two(request: pytest.FixtureRequest) -> Iterator[tuple[Jobs, Jobs]]:
    """Two storages over one database, on connections of their own."""
    clock = FakeClock(NOON)
    made: list[MeetingStore] = []
    for _ in range(2):
        if request.param == "sqlite":
            url, kind = request.getfixturevalue("sqlite_url"), UnlockedSqlite
        else:
            url, kind = url_by(request.param, request.getfixturevalue("postgres_url")), UnlockedPostgres
        database = database_by(kind, make_url(url), clock, MeetingDatabase)
        made.append(MeetingStore(database))  # type: ignore[arg-type]
        made[-1].init()
    first, second = (Jobs(one) for one in made)
    for jobs in (first, second):
        jobs.declare("greet")
    yield first, second
    for one in made:
        one.close()


def at_once(two: tuple[Jobs, Jobs], *works: Callable[[SqlStore], Any]) -> list[Any]:
    """What each of the two answered, having read before either wrote."""
    meeting = Meeting()
    for jobs in two:
        jobs.storage.database.meeting = meeting  # type: ignore[attr-defined]
    with ThreadPoolExecutor(2) as pool:
        begun = [pool.submit(work, jobs.storage) for work, jobs in zip(works, two, strict=True)]
        answers = [one.result(120) for one in begun]
    for jobs in two:
        jobs.storage.database.meeting = None  # type: ignore[attr-defined]
    return answers


def settlement(job_id: str, outcome: Outcome) -> Settlement:
    return Settlement(job_id, 1, "worker", decide(1, 3, outcome), 0.1)


def walked(jobs: Jobs, job_id: str) -> list[tuple[str | None, str]]:
    """The edges in the job's history."""
    c = jobs.storage.tables.events.c
    query = select(c.from_status, c.to_status).where(c.job_id == job_id).order_by(c.id)
    return [(row[0], row[1]) for row in jobs.storage.database.read(lambda connection: connection.execute(query).all())]


def counted(jobs: Jobs) -> tuple[int, ...]:
    """What the counters say in all: succeeded, failed, dead, cancelled."""
    c = jobs.storage.tables.stats.c
    query = select(c.succeeded, c.failed, c.dead, c.cancelled)
    rows = jobs.storage.database.read(lambda connection: connection.execute(query).all())
    return tuple(sum(row[place] for row in rows) for place in range(4))


FAILED = Failed(Failure("CODE", "no"), 5.0)


@pytest.mark.parametrize(
    "outcomes", [(Succeeded(), Succeeded()), (Succeeded(), FAILED), (FAILED, FAILED)], ids=["same", "mixed", "failed"]
)
def test_one_of_two_settlements_is_accepted(two: tuple[Jobs, Jobs], outcomes: tuple[Outcome, Outcome]) -> None:
    jobs, _ = two
    shared, own, other = (job.id for job in jobs.enqueue_many([("greet", n) for n in range(3)]))
    jobs.claim("worker", limit=3)
    first = [settlement(shared, outcomes[0]), settlement(own, Succeeded())]
    second = [settlement(other, FAILED), settlement(shared, outcomes[1])]
    accepted = at_once(two, lambda s: s.settle(first), lambda s: s.settle(second))
    assert sorted(id for ids in accepted for id in ids) == sorted([shared, own, other])
    assert own in accepted[0] and other in accepted[1]
    winner = outcomes[0 if shared in accepted[0] else 1]
    path = decide(1, 3, winner).path
    assert walked(jobs, shared)[2:] == list(zip(("processing", *path), path, strict=False))
    assert jobs.get(shared).status is path[-1]
    failures = 1 + (winner is FAILED)
    assert counted(jobs) == (3 - failures, failures, 0, 0)


def test_a_settlement_and_a_command_do_not_both_end_a_job(two: tuple[Jobs, Jobs]) -> None:
    jobs, _ = two
    job = jobs.enqueue("greet")
    jobs.claim("worker")
    accepted, taken = at_once(
        two, lambda s: s.settle([settlement(job.id, Succeeded())]), lambda s: cancelled(s, job.id)
    )
    assert (job.id in accepted) is not (taken.refused is None), "one of them, and not the other"
    assert len(walked(jobs, job.id)) == 3
    assert sum(counted(jobs)) == 1


def test_one_of_two_commands_is_carried_out(two: tuple[Jobs, Jobs]) -> None:
    jobs, _ = two
    job = jobs.enqueue("greet")
    taken = at_once(two, lambda s: cancelled(s, job.id), lambda s: cancelled(s, job.id))
    assert [one.step is not None for one in taken].count(True) == 1
    assert walked(jobs, job.id) == [(None, "queued"), ("queued", "cancelled")]
    assert counted(jobs) == (0, 0, 0, 1)


def cancelled(storage: SqlStore, job_id: str) -> Taken:
    def decide_on(job: JobState) -> Step | None:
        return None if job.status is Status.CANCELLED else Step(Status.CANCELLED, "cancelled")

    [taken] = storage.database.write(lambda connection: storage.commands.command(connection, [job_id], decide_on))
    return taken


def test_a_due_job_is_promoted_once(two: tuple[Jobs, Jobs]) -> None:
    jobs, _ = two
    job = jobs.enqueue("greet", delay=5)
    jobs.storage.clock.advance(6)  # type: ignore[attr-defined]
    promoted = at_once(two, promote, promote)
    assert sorted(promoted) == [0, 1]
    assert walked(jobs, job.id) == [(None, "scheduled"), ("scheduled", "queued")]


def promote(storage: SqlStore) -> int:
    return storage.database.write(lambda connection: storage.sweeper.promotion.promote_in(connection, 10))
