"""What hangs on a job hears of every edge that the job walks, once, in the transaction that walks it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import psycopg
import pytest
from sqlalchemy import Connection, event, select, text

from sloppyjobs import Jobs
from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import Cancelled, Failed, Failure, Outcome, Released, Snoozed, Status, Succeeded, decide
from sloppyjobs.storage import FakeClock, SqlStore, from_url
from sloppyjobs.storage.jobs.followups import Edge, Followup
from sloppyjobs.storage.ports.operators import Command

MakeStorage = Callable[..., SqlStore]
Edges = tuple[tuple[str, str | None], ...]
DAY = 86_400.0
HANGS = Followup(1 << 21)
"""A bit that no part of the library sees to."""
FLAGS = HANGS | Followup(1 << 20)
"""Bits for which the store itself has no step."""
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
FAILURE = Failure("CODE", "what happened", "SomeError", "module:function", "the traceback")


class World(NamedTuple):
    """Two jobs that go the same way; the first will be flagged."""

    jobs: Jobs
    clock: FakeClock
    ids: tuple[str, str]

    @property
    def storage(self) -> SqlStore:
        return self.jobs.storage

    @property
    def flagged(self) -> str:
        return self.ids[0]


Step = Callable[[World], object]


def held(outcome: Outcome, attempts: int = 3) -> Callable[[World], list[Settlement]]:
    """Settlements of the jobs, which are claimed already."""
    decision = decide(1, attempts, outcome)
    return lambda world: [Settlement(id, 1, "worker", decision, 0.1) for id in world.ids]


def claim(world: World) -> None:
    assert len(world.jobs.claim("worker", limit=10)) == 2


def settled(outcome: Outcome) -> Step:
    return lambda world: world.storage.settle(held(outcome)(world))


def turned(outcome: Outcome) -> Step:
    return lambda world: world.storage.turn(held(outcome)(world), None)


def dead(world: World) -> None:
    claim(world)
    settled(Failed(FAILURE, 0.0, retryable=False))(world)
    world.clock.advance(1)


def later(world: World) -> None:
    claim(world)
    settled(Snoozed(60.0))(world)
    world.clock.advance(61)


def due(world: World) -> None:
    ids = [world.jobs.enqueue("greet", delay=60).id for _ in range(2)]
    move_ids(world, ids)
    world.clock.advance(61)


def move_ids(world: World, ids: Sequence[str]) -> None:
    """Let the two jobs of the world be these."""
    for old, new in zip(world.ids, ids, strict=True):
        for table in ("sloppy_jobs", "sloppy_job_events"):
            key = "id" if table == "sloppy_jobs" else "job_id"
            execute(world, f"DELETE FROM {table} WHERE {key} = :old", old=old)
            execute(world, f"UPDATE {table} SET {key} = :old WHERE {key} = :new", old=old, new=new)


def expired(world: World) -> None:
    claim(world)
    world.clock.advance(DAY)


def deleted(world: World) -> None:
    for id in world.ids:
        world.jobs.admin.delete(id)
    world.clock.advance(10 * DAY)


def finished(world: World) -> None:
    claim(world)
    settled(Succeeded())(world)
    world.clock.advance(10 * DAY)


def rest(world: World) -> None:
    dead(world)
    [group] = world.jobs.admin.dead_groups()
    world.jobs.admin.retry_rest(group.cause, 6000)
    world.clock.advance(60)


def canary(world: World) -> None:
    [group] = world.jobs.admin.dead_groups()
    world.jobs.admin.retry_canary(group.cause, 10)


def each(command: str) -> Step:
    return lambda world: [getattr(world.jobs.admin, command)(id) for id in world.ids]


def bulk(action: str) -> Step:
    return lambda world: world.jobs.admin.bulk(action, {"name": "greet"})


def soft_delete(world: World) -> None:
    assert world.storage.retention.soft_delete(Status.SUCCEEDED, world.clock.now(), 10, Command("cleanup")).count


def purge(archive: bool) -> Step:
    return lambda world: world.storage.retention.purge(world.clock.now(), 10, archive=archive)


def nothing(_world: World) -> None:
    """The jobs stay as they were enqueued."""


def sweep(world: World) -> None:
    world.storage.sweep()


LOST = (("processing", "failed"), ("failed", "queued"))
OUTCOMES: dict[str, tuple[Outcome, Edges]] = {
    "succeeded": (Succeeded('{"answer":42}'), (("processing", "succeeded"),)),
    "retrying": (Failed(FAILURE, 5.0), (("processing", "failed"), ("failed", "retrying"))),
    "dead": (Failed(FAILURE, 0.0, retryable=False), (("processing", "failed"), ("failed", "dead"))),
    "cancelled": (Cancelled("not wanted"), (("processing", "cancelled"),)),
    "snoozed": (Snoozed(5.0), (("processing", "failed"), ("failed", "retrying"))),
    "released": (Released(), LOST),
}
PATHS: dict[str, tuple[Step, Step, Edges]] = {
    **{f"settle {name}": (claim, settled(outcome), edges) for name, (outcome, edges) in OUTCOMES.items()},
    **{f"turn {name}": (claim, turned(outcome), edges) for name, (outcome, edges) in OUTCOMES.items()},
    "lease expired": (expired, sweep, LOST),
    "scheduled is due": (due, sweep, (("scheduled", "queued"),)),
    "retry is due": (later, sweep, (("retrying", "queued"),)),
    "cancel queued": (nothing, each("cancel"), (("queued", "cancelled"),)),
    "cancel running": (claim, each("cancel"), (("processing", "cancelled"),)),
    "delete": (dead, each("delete"), (("dead", "deleted"),)),
    "retry": (dead, each("retry"), (("dead", "queued"),)),
    "bulk cancel": (nothing, bulk("cancel"), (("queued", "cancelled"),)),
    "bulk delete": (dead, bulk("delete"), (("dead", "deleted"),)),
    "bulk retry": (dead, bulk("retry"), (("dead", "queued"),)),
    "canary": (dead, canary, (("dead", "queued"),)),
    "retry run": (rest, lambda world: world.jobs.admin.advance_retry_runs(), (("dead", "queued"),)),
    "soft delete": (finished, soft_delete, (("succeeded", "deleted"),)),
    "purge": (deleted, purge(archive=False), (("deleted", None),)),
    "archive": (deleted, purge(archive=True), (("deleted", None),)),
}


@pytest.fixture
def world(make_storage: MakeStorage) -> World:
    return new_world(make_storage)


def new_world(make_storage: MakeStorage) -> World:
    clock = FakeClock(datetime(2030, 1, 1, 12, tzinfo=UTC))
    jobs = Jobs(make_storage(clock))
    jobs.declare("greet")
    first, second = jobs.enqueue_many([("greet", {}), ("greet", {})])
    return World(jobs, clock, (first.id, second.id))


def execute(world: World, statement: str, **values: Any) -> None:
    world.storage.database.write(lambda connection: connection.execute(text(statement), values))


def flag(world: World, bits: Followup | None) -> None:
    value = None if bits is None else int(bits)
    execute(world, "UPDATE sloppy_jobs SET followups = :bits WHERE id = :id", bits=value, id=world.flagged)


def rows_of_flagged(world: World, connection: Connection) -> list[Any]:
    t, id = world.storage.tables, world.flagged
    queries = [select(t.jobs).where(t.jobs.c.id == id), select(t.archive).where(t.archive.c.id == id)]
    queries += [select(table).where(table.c.job_id == id) for table in (t.attempts, t.events)]
    return [sorted(map(tuple, connection.execute(query)), key=str) for query in queries]


def event_edges(world: World) -> Edges:
    c = world.storage.tables.events.c
    query = select(c.from_status, c.to_status).where(c.job_id == world.flagged).order_by(c.id)
    found = world.storage.database.read(lambda connection: connection.execute(query).all())
    return tuple((source, target) for source, target in found)


@pytest.mark.parametrize("path", PATHS)
def test_every_edge_of_a_flagged_job_is_seen_once_and_before_the_commit(world: World, path: str) -> None:
    before, act, expected = PATHS[path]
    before(world)
    flag(world, FLAGS)
    seen: list[Edge] = []
    inside: list[Any] = []

    def record(connection: Connection, edges: Sequence[Edge]) -> None:
        seen.extend(edges)
        inside.append(rows_of_flagged(world, connection))

    outside = world.storage.database.read(lambda connection: rows_of_flagged(world, connection))
    world.storage.followups.add(HANGS, record)
    world.storage.followups.add(Followup.PERMIT, lambda *_: pytest.fail("no job has this bit"))
    act(world)
    assert seen == [Edge(world.flagged, source, target, FLAGS) for source, target in expected]  # type: ignore[arg-type]
    assert len(inside) == 1 and inside[0] != outside, "the rows have changed when the step sees them"
    after = world.storage.database.read(lambda connection: rows_of_flagged(world, connection))
    if expected[-1][1] is None:
        # What hangs on the job is found by its row, which is the last to go.
        row, *others = inside[0]
        assert row == outside[0] and [[], *others] == after
        return
    assert inside[0] == after
    assert event_edges(world)[-len(expected) :] == expected


@pytest.mark.parametrize("path", PATHS)
def test_a_step_that_raises_undoes_the_edges(world: World, path: str) -> None:
    before, act, expected = PATHS[path]
    before(world)
    flag(world, Followup.DEPENDANTS)
    seen: list[int] = []

    def refuse(_connection: Connection, edges: Sequence[Edge]) -> None:
        seen.append(len(edges))
        raise ArithmeticError

    untouched = world.storage.database.read(lambda connection: rows_of_flagged(world, connection))
    world.storage.followups.add(Followup.DEPENDANTS, refuse)
    with pytest.raises(ArithmeticError):
        act(world)
    assert seen == [len(expected)]
    assert world.storage.database.read(lambda connection: rows_of_flagged(world, connection)) == untouched


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_asked_or_told_of_plain_jobs(
    make_storage: MakeStorage, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    before, act, _ = PATHS[path]
    counted = []
    for flagged in (False, True):
        world = new_world(make_storage)
        before(world)
        # Nobody has added a step for it, so there is nothing to do but to know of it.
        flag(world, FLAGS if flagged else None)
        if not flagged:
            monkeypatch.setattr(world.storage.followups, "after", lambda *_: pytest.fail("nothing hangs on them"))
        counted.append(statements(world, act, monkeypatch))
        clear(world)
    plain, with_flag = counted
    if path.startswith(("turn", "settle")) and world.storage.dialect.name == "postgresql":
        assert [one.split()[0] for one in plain] == ["BEGIN", "SELECT", "WITH", "COMMIT"], "plans, and one statement"
    elif path.endswith("is due") and world.storage.dialect.name == "postgresql":
        assert [one.split()[0] for one in plain] == ["SELECT", "BEGIN", "SELECT", "WITH", "COMMIT"]
        assert plain == with_flag[: len(plain)], "the common way comes after it, for those with a flag"
    else:
        assert plain == with_flag


def test_a_job_that_is_flagged_while_it_is_settled_is_seen(postgres_url: str, eventually: Any) -> None:
    # SQLite has one writer at a time.
    world = new_world(lambda clock: from_url(postgres_url, clock=clock))
    claim(world)
    seen: list[Edge] = []
    world.storage.followups.add(Followup.KEY, lambda _connection, edges: seen.extend(edges))
    turns = world.storage.turns()
    with world.storage.engine.connect() as other:
        other.execute(text("UPDATE sloppy_jobs SET followups = 2 WHERE id = :id"), {"id": world.flagged})
        turns.begin_settle(held(Succeeded())(world))
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        with world.storage.engine.connect() as watcher:
            eventually(lambda: watcher.execute(text(waiting)).scalar_one())
        other.commit()
    assert turns.settled() == set(world.ids)
    turns.close()
    world.storage.close()
    assert [(edge.job_id, edge.source, edge.target) for edge in seen] == [(world.flagged, "processing", "succeeded")]


def statements(world: World, act: Step, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent to the database meanwhile, on whichever cursor."""
    sent: list[str] = []
    if world.storage.dialect.name == "sqlite":
        event.listen(world.storage.engine, "checkout", lambda driver, *_: driver.set_trace_callback(sent.append))
        act(world)
        return [" ".join(one.split()[:2]) for one in sent]
    execute_really = psycopg.Cursor.execute

    def note(cursor: Any, query: str, *arguments: Any, **options: Any) -> Any:
        sent.append(query)
        return execute_really(cursor, query, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Cursor, "execute", note)
        act(world)
    return [" ".join(one.split()[:2]) for one in sent]


def clear(world: World) -> None:
    for name in ("jobs", "job_attempts", "job_events", "job_archive", "job_stats", "job_deaths", "job_retry_runs"):
        execute(world, f"DELETE FROM sloppy_{name}")
