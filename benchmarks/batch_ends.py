"""The end of a batch when its last members end at once, in as many processes: exactly one of each callback.

Each process holds one member of the batch. A barrier lets them settle at the same moment, round after round.
"""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from multiprocessing.synchronize import Barrier
from time import monotonic, sleep
from typing import Any

from benchmarks import databases, mariadb
from benchmarks.report import Report
from sloppyjobs import Claim, Jobs

LEASE = 600.0
SECONDS = 300.0
"""After how long a process gives up that waits for the others."""
KINDS = ("success", "complete")
Moments = tuple[float, float]
Place = Callable[[], AbstractContextManager[str]]


def fill(url: str, processes: int, rounds: int) -> list[str]:
    """A batch for each round, with a member for each process; their ids in the order of the rounds."""
    jobs = _jobs(url)
    jobs.init()
    made = []
    for number in range(rounds):
        callbacks: Any = {f"on_{kind}": ("report", {"round": number}) for kind in KINDS}
        with jobs.batch(f"round {number}", **callbacks) as batch:
            batch.enqueue_many([("member", None, {"queue": _queue(process)}) for process in range(processes)])
        made.append(batch.id)
    jobs.storage.close()
    return made


def settle(url: str, process: int, rounds: int, barrier: Barrier, answers: Any) -> None:
    """Settle one member in each round, at the moment at which all others do; tell from when to when that took."""
    jobs = _jobs(url)
    moments: list[Moments] = []
    for _ in range(rounds):
        try:
            claim = _claimed(jobs, process)
        except Exception:
            barrier.abort()  # nobody waits in vain
            answers.put((process, None))
            raise
        barrier.wait(SECONDS)
        begun = monotonic()
        assert jobs.complete(claim)
        moments.append((begun, monotonic()))
    answers.put((process, moments))


def _claimed(jobs: Jobs, process: int) -> Claim:
    """The next member. On MariaDB a claim passes over a row that others happen to have locked for an instant."""
    until = monotonic() + SECONDS
    while monotonic() < until:
        for claim in jobs.claim(f"process-{process}", queues=(_queue(process),), limit=1, lease=LEASE):
            return claim
        sleep(0.001)
    raise AssertionError(f"no member was found for process {process}")


def race(place: Place, processes: int, rounds: int) -> dict[str, int]:
    """Let them race on a new database; what is there in the end."""
    with place() as where:
        url = where if "://" in where else f"sqlite:///{where}"
        batches = fill(url, processes, rounds)
        context = multiprocessing.get_context("spawn")
        barrier, answers = context.Barrier(processes), context.Queue()
        started = [
            context.Process(target=settle, args=(url, process, rounds, barrier, answers), daemon=True)
            for process in range(processes)
        ]
        for process in started:
            process.start()
        moments = dict(answers.get(timeout=rounds * 10 + SECONDS) for _ in started)
        if None in moments.values():
            raise AssertionError("a process found no member to settle")
        for process in started:
            process.join(SECONDS)
        return {"at once": _at_once(list(moments.values())), **_counted(url, batches, processes)}


def _counted(url: str, batches: list[str], processes: int) -> dict[str, int]:
    """Nobody but those who settled was there to end a batch: no worker, no sweep."""
    jobs = _jobs(url)
    seen = [jobs.admin.get_batch(batch) for batch in batches]
    whole = [one for one in seen if (one.status, one.succeeded, one.outstanding) == ("succeeded", processes, 0)]
    reports: Counter[str] = Counter()
    page = jobs.admin.list_jobs(name="report", page_size=500)
    reports.update(job.id for job in page)
    while page.next_cursor is not None:
        page = jobs.admin.list_jobs(name="report", page_size=500, cursor=page.next_cursor)
        reports.update(job.id for job in page)
    once = [one for one in seen if all(reports[callback.job_id] == 1 for callback in one.callbacks)]
    jobs.storage.close()
    return {"ended": len(whole), "each callback once": len(once), "callbacks": sum(reports.values())}


def _at_once(moments: list[list[Moments]]) -> int:
    """In how many rounds there was a moment at which all of them were settling."""
    return sum(max(begun for begun, _ in one) < min(ended for _, ended in one) for one in zip(*moments, strict=True))


def run(postgres: str, mariadb_server: str, processes: int, rounds: int) -> tuple[list[Report], bool]:
    """The race on every database; and whether each batch has ended once."""
    report = Report(
        f"batch-ends: {processes} processes settle the last members of one batch at once",
        ("database", "rounds", "all at one moment", "batches ended", "each callback once", "callbacks"),
    )
    right = True
    places: dict[str, Place] = {
        "PostgreSQL": partial(databases.fresh_postgres, postgres),
        "SQLite": databases.fresh_sqlite,
        "MariaDB": partial(mariadb.fresh, mariadb_server),
    }
    for name, place in places.items():
        found = race(place, processes, rounds)
        report.add(name, *[f"{number:,}" for number in (rounds, *found.values())])
        ended = (found["ended"], found["each callback once"], found["callbacks"])
        right = right and ended == (rounds, rounds, rounds * len(KINDS))
    report.note(f"each batch has {len(KINDS)} callbacks: {', '.join(f'on_{kind}' for kind in KINDS)}")
    report.note("exactly one of each was enqueued for every batch" if right else "NOT exactly one of each was enqueued")
    return [report], right


def _jobs(url: str) -> Jobs:
    jobs = Jobs(url)
    jobs.declare("member")
    jobs.declare("report")
    return jobs


def _queue(process: int) -> str:
    return f"process-{process}"
