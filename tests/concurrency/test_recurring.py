"""Many schedulers in processes of their own, and schedulers that die: one job for each occurrence, no matter what.

Run as a script, this file forks such schedulers, one for each argument after the URL, and prints what they fired.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from sloppyjobs import storage as storages
from sloppyjobs.domain.model import Job
from sloppyjobs.jobs import Jobs
from sloppyjobs.schedules.timetable import Misfire, Schedule, preview
from sloppyjobs.storage import FakeClock, SqlStore

START = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
ROUNDS = 12
STEP = timedelta(seconds=50)
END = START + ROUNDS * STEP
# Everything that comes due is selected, so that what must be fired does not depend on who ticked when.
TIMES: list[dict[str, Any]] = [
    *({"every": seconds} for seconds in (7, 30, 45, 50, 100, 101, 300, 599)),
    *({"cron": cron} for cron in ("* * * * *", "*/2 * * * *", "5 12 * * *", "*/7 * * * *")),
    *({"at": (START + timedelta(seconds=seconds)).isoformat()} for seconds in (0, 1, 60, 299, 600)),
]
SCHEDULES = {f"s{n}": times for n, times in enumerate(TIMES * 2)}

pytestmark = pytest.mark.slow

MakeStorage = Callable[..., SqlStore]


def register_all(jobs: Jobs) -> None:
    jobs.declare("sync")
    for name, times in SCHEDULES.items():
        jobs.recurring(name, "sync", {"schedule": name}, misfire="catch-up-limited", catch_up_limit=1000, **times)


def expected_fires() -> Counter[tuple[str, datetime]]:
    fires: Counter[tuple[str, datetime]] = Counter()
    for name, times in SCHEDULES.items():
        if "at" in times:
            fires[name, datetime.fromisoformat(times["at"])] += 1
            continue
        kind = "cron" if "cron" in times else "interval"
        timetable = Schedule(kind, times.get("cron"), times.get("every"), misfire=Misfire.CATCH_UP_LIMITED)
        fires.update((name, instant) for instant in preview(timetable, START, 200) if instant <= END)
    return fires


def actual_fires(jobs: Jobs) -> Counter[tuple[str, datetime]]:
    c = jobs.storage.tables.jobs.c
    with jobs.storage.engine.connect() as connection:
        found = connection.execute(select(c.payload, c.occurrence_at)).all()
    return Counter((json.loads(payload)["schedule"], instant) for payload, instant in found)


def tick_until_done(jobs: Jobs) -> list[Job]:
    fired: list[Job] = []
    while more := jobs.tick_recurring(limit=1000):
        fired += more
    return fired


# One scheduler


def without_transaction(storage: Any) -> None:
    """Commit the insert before the cursor moves, as a store without transactions would."""

    def fire(schedule_id: str, decide: Any) -> list[Job]:
        due = storage.database.read(
            lambda c: storage.firing.schedule_where(c, storage.tables.recurring.c.id == schedule_id)
        )
        now = storage.clock.now()
        if due is None or due.next_run_at > now:
            return []
        firing = decide(due, now)
        inserted: list[Job] = storage.database.write(lambda c: storage.firing.insert_occurrences(c, firing.jobs))
        storage.database.write(lambda c: storage.firing.advance(c, due, firing, now))
        return inserted

    storage.firing.fire = fire


def dying(storage: Any, advances: int) -> None:
    """Die by kill -9 between an insert and the advance that follows it."""
    advance, left = storage.firing.advance, iter(range(advances))

    def advance_or_die(*arguments: Any) -> bool:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        moved: bool = advance(*arguments)
        return moved

    storage.firing.advance = advance_or_die


def run_scheduler(url: str, modes: list[str], begin: Callable[[], object]) -> list[str]:
    clock = FakeClock(START)
    jobs = Jobs(storages.from_url(url, clock=clock))
    if "without-transaction" in modes:
        without_transaction(jobs.storage)
    for mode in modes:
        if mode.startswith("dying-after-"):
            dying(jobs.storage, int(mode.removeprefix("dying-after-")))
    jobs.storage.ensure_schema()
    begin()
    if "register" in modes:
        register_all(jobs)
        return []
    fired: list[str] = []
    for _ in range(ROUNDS):
        clock.advance(STEP)
        fired += [job.id for job in jobs.tick_recurring()]
    return fired


def run_together(url: str, *each: tuple[str, ...]) -> list[list[str] | None]:
    """Start one process for each list of modes, let them go at once; what each fired, None for one that died."""
    import warm_start  # not for the processes, which run this file too

    command = [sys.executable, __file__, url, *map(" ".join, each)]
    ran = warm_start.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert ran.returncode == 0, ran.stderr
    fired: list[list[str] | None] = json.loads(ran.stdout)
    return fired


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture
def jobs(make_storage: MakeStorage, clock: FakeClock) -> Jobs:
    return Jobs(make_storage(clock))


@pytest.mark.parametrize("modes", [(), ("without-transaction",)], ids=["whole", "torn"])
def test_five_schedulers_at_once_make_one_job_for_each_occurrence(
    jobs: Jobs, clock: FakeClock, database_url: str, modes: tuple[str, ...]
) -> None:
    register_all(jobs)
    answers = run_together(database_url, *[modes] * 5)
    clock.set(END)
    fired = [id for answer in answers for id in answer or ()]
    fired += [job.id for job in tick_until_done(jobs)]
    assert actual_fires(jobs) == expected_fires()
    # Each job was reported by the one scheduler that inserted it.
    assert len(fired) == len(set(fired)) == expected_fires().total()


@pytest.mark.parametrize("modes", [(), ("without-transaction",)], ids=["whole", "torn"])
def test_schedulers_that_are_killed_between_insert_and_advance_lose_and_double_nothing(
    jobs: Jobs, clock: FakeClock, database_url: str, modes: tuple[str, ...]
) -> None:
    register_all(jobs)
    died = []
    for advances in (0, 1, 20, 33):
        died += run_together(database_url, (*modes, f"dying-after-{advances}"))
        clock.advance(30)
        jobs.tick_recurring(limit=5)
    assert died == [None] * 4
    clock.set(END)
    tick_until_done(jobs)
    assert actual_fires(jobs) == expected_fires()


def test_a_scheduler_that_is_killed_inside_a_tick_does_not_hold_up_the_others(
    jobs: Jobs, clock: FakeClock, database_url: str, eventually: Callable[..., Any]
) -> None:
    register_all(jobs)
    assert run_together(database_url, ("dying-after-3",)) == [None]
    # The instant at which it died: nothing that waits for a time-out is over yet.
    clock.advance(STEP)
    fired: list[Job] = []

    def nothing_is_due() -> bool:
        # Until PostgreSQL has noticed that the process is gone, its last schedule is left to it.
        fired.extend(jobs.tick_recurring(limit=1000))
        return not jobs.storage.firing.due(1)

    eventually(nothing_is_due)
    assert fired
    until_now = {fire for fire in expected_fires() if fire[1] <= clock.now()}
    assert actual_fires(jobs) == Counter(until_now)


class Crash(BaseException):
    """What a scheduler cannot catch."""


def test_a_crash_between_insert_and_advance_leaves_the_occurrence_pending(
    jobs: Jobs, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.declare("sync")
    jobs.recurring("s", "sync", {"schedule": "s"}, every=60)
    clock.advance(60)

    def crash(*_: Any) -> bool:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(jobs.storage.firing, "advance", crash)
        with pytest.raises(Crash):
            jobs.tick_recurring()
    assert actual_fires(jobs).total() == 0
    assert len(jobs.tick_recurring()) == 1
    assert jobs.tick_recurring() == []
    assert actual_fires(jobs) == Counter({("s", clock.now()): 1})


def test_an_occurrence_that_was_inserted_and_not_advanced_is_not_inserted_again(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("sync")
    jobs.recurring("s", "sync", {"schedule": "s"}, every=60, misfire="catch-up-limited")
    clock.advance(60)
    half_done: Any = jobs.storage
    advance = half_done.firing.advance
    half_done.firing.advance = lambda *_: True
    assert len(jobs.tick_recurring()) == 1
    half_done.firing.advance = advance
    clock.advance(60)
    [job] = jobs.tick_recurring()
    assert job.occurrence_at == clock.now()
    assert actual_fires(jobs).total() == 2


def test_five_processes_that_register_the_same_schedules_at_once_make_one_row_each(
    jobs: Jobs, database_url: str
) -> None:
    assert run_together(database_url, *[("register",)] * 5) == [[]] * 5
    names = [view.name for view in jobs.schedules.page(page_size=500)]
    assert names == sorted(SCHEDULES)


def test_a_schedule_that_is_paused_while_it_fires_has_not_fired(
    postgres_url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    firing, other = (Jobs(storages.postgres(postgres_url, clock=clock)) for _ in range(2))
    firing.declare("sync")
    firing.recurring("s", "sync", {"schedule": "s"}, every=60)
    clock.advance(60)
    advance = firing.storage.firing.advance

    def pause_first(*arguments: Any) -> bool:
        other.schedules.pause("s")
        return advance(*arguments)

    monkeypatch.setattr(firing.storage.firing, "advance", pause_first)
    assert firing.tick_recurring() == []
    assert actual_fires(firing).total() == 0
    assert firing.schedules.get("s").last_error is None
    for one in (firing, other):
        one.storage.close()


if __name__ == "__main__":
    from crowd import gather

    _, url, *arguments = sys.argv
    each = [argument.split() for argument in arguments]
    json.dump(gather(lambda url, number, begin: run_scheduler(url, each[number], begin), url, len(each)), sys.stdout)
