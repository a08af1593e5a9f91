"""Real processes and real signals: what a worker's death costs, and what it does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import warm_start
from sqlalchemy import create_engine, select
from sqlalchemy.exc import OperationalError

from sloppyjobs import Jobs
from sloppyjobs.domain.states import Status
from sloppyjobs.testing import history
from sloppyjobs.worker.signals import SAME_SIGNAL_SECONDS

SERVICE = Path(__file__).with_name("service.py")
Eventually = Callable[..., Any]
Launch = Callable[..., "subprocess.Popen[bytes]"]

pytestmark = pytest.mark.slow


DATABASES = {"sqlite": "ready_sqlite_url", "postgres": "postgres_url", "mariadb": "new_mariadb_url"}


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of an initialised database; what a death costs is the same on each kind."""
    url: str = request.getfixturevalue(DATABASES[request.param])
    return url


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes"
    path.touch()
    return path


@pytest.fixture
def launch(database_url: str, notes: Path, tmp_path: Path) -> Iterator[Launch]:
    """Starts the service with its options as keywords; the test ends whatever still runs.

    A lease is long unless a test says otherwise: on a busy machine a short one is lost by itself.
    """
    children: list[subprocess.Popen[bytes]] = []
    log = (tmp_path / "log").open("wb")

    def start(**options: float) -> subprocess.Popen[bytes]:
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        command = [sys.executable, str(SERVICE), database_url, str(notes), *arguments]
        children.append(warm_start.Popen(command, stderr=log))
        return children[-1]

    yield start
    for child in children:
        if child.poll() is None:
            child.send_signal(signal.SIGCONT)
            child.kill()
        child.wait()
    log.close()


@pytest.fixture
def service_jobs(jobs: Jobs, notes: Path) -> Iterator[Jobs]:
    """Whatever was killed: every promise was kept when the test ends."""
    for name in ("hold", "crash", "quick", "stepped"):
        jobs.declare(name)
    yield jobs
    history.assert_sound(jobs, history.Log(notes.with_suffix(".history")))


@pytest.fixture
def client(service_jobs: Jobs, notes: Path) -> history.Client:
    return history.Client(service_jobs, history.Log(notes.with_suffix(".history")))


def lines(notes: Path, word: str) -> list[list[str]]:
    return [line.split() for line in notes.read_text().splitlines() if line.startswith(word)]


def attempts(jobs: Jobs, job_id: str) -> list[tuple[int, str]]:
    table = jobs.storage.tables.attempts
    query = select(table.c.attempt_number, table.c.status).where(table.c.job_id == job_id)
    with jobs.storage.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query.order_by(table.c.attempt_number))]


def worker_states(jobs: Jobs) -> set[str]:
    with jobs.storage.engine.connect() as connection:
        return set(connection.execute(select(jobs.storage.tables.workers.c.status)).scalars())


def test_a_job_whose_worker_is_killed_is_run_again_by_another(
    service_jobs: Jobs, client: history.Client, launch: Launch, notes: Path, tmp_path: Path, eventually: Eventually
) -> None:
    go_on = tmp_path / "go on"
    job = client.enqueue("hold", {"until": str(go_on)}, max_attempts=3)
    first = launch(lease=1)
    eventually(lambda: lines(notes, "begin"))
    first.kill()
    first.wait()
    go_on.touch()
    launch()
    done = service_jobs.wait(job.id, timeout=20)
    assert (done.status, done.result) == (Status.SUCCEEDED, 2)
    assert attempts(service_jobs, job.id) == [(1, "lost"), (2, "succeeded")]


def outside_of_transactions(stopped: subprocess.Popen[bytes], jobs: Jobs) -> bool:
    """Whether others can write; if not, the process goes on for an instant."""
    impatient = create_engine(jobs.storage.engine.url, connect_args={"timeout": 0})
    try:
        with impatient.begin() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
    except OperationalError:
        stopped.send_signal(signal.SIGCONT)
        time.sleep(0.02)
        stopped.send_signal(signal.SIGSTOP)
        return False
    finally:
        impatient.dispose()
    return True


def test_a_worker_that_sleeps_past_its_lease_settles_nothing(
    service_jobs: Jobs, client: history.Client, launch: Launch, notes: Path, tmp_path: Path, eventually: Eventually
) -> None:
    go_on = tmp_path / "go on"
    job = client.enqueue("hold", {"until": str(go_on)}, max_attempts=3)
    sleeper = launch(lease=1)
    eventually(lambda: lines(notes, "begin"))
    sleeper.send_signal(signal.SIGSTOP)
    if service_jobs.storage.dialect.name == "sqlite":
        # Nobody ends the transaction of a frozen process there, which may hold the lock of the whole file.
        eventually(lambda: outside_of_transactions(sleeper, service_jobs))
    launch()
    eventually(lambda: len(lines(notes, "begin")) == 2)
    go_on.touch()
    done = service_jobs.wait(job.id, timeout=60)
    sleeper.send_signal(signal.SIGCONT)
    eventually(lambda: len(lines(notes, "end")) == 2)
    sleeper.send_signal(signal.SIGTERM)
    assert sleeper.wait(30) == 0
    assert done.result == 2
    assert service_jobs.get(job.id) == done
    assert attempts(service_jobs, job.id) == [(1, "lost"), (2, "succeeded")]


def test_sigterm_lets_a_running_job_finish(
    service_jobs: Jobs, client: history.Client, launch: Launch, notes: Path, tmp_path: Path, eventually: Eventually
) -> None:
    go_on = tmp_path / "go on"
    job = client.enqueue("hold", {"until": str(go_on)})
    child = launch()
    eventually(lambda: lines(notes, "begin"))
    child.send_signal(signal.SIGTERM)
    eventually(lambda: worker_states(service_jobs) == {"draining"})
    waiting = client.enqueue("quick")
    go_on.touch()
    assert child.wait(30) == 0
    assert service_jobs.get(job.id).result == 1
    assert service_jobs.get(waiting.id).status is Status.QUEUED


def test_sigterm_gives_back_what_does_not_finish(
    service_jobs: Jobs, client: history.Client, launch: Launch, notes: Path, tmp_path: Path, eventually: Eventually
) -> None:
    job = client.enqueue("hold", {"until": str(tmp_path / "never")}, max_attempts=1)
    child = launch(shutdown_timeout=0.5)
    eventually(lambda: lines(notes, "begin"))
    child.send_signal(signal.SIGTERM)
    assert child.wait(30) == 0
    given_back = service_jobs.get(job.id)
    assert (given_back.status, given_back.attempt_count, given_back.max_attempts) == (Status.QUEUED, 1, 2)


def test_a_supervisor_starts_a_crashed_worker_again_and_the_poison_job_dies(
    service_jobs: Jobs, client: history.Client, launch: Launch, notes: Path, eventually: Eventually
) -> None:
    poison = client.enqueue("crash", max_attempts=2)
    parent = launch(processes=2, lease=1)
    done = service_jobs.wait(poison.id, timeout=40)
    assert (done.status, done.error_code) == (Status.DEAD, "SLOPPY_E_JOBS_LEASE_EXPIRED")
    assert attempts(service_jobs, poison.id) == [(1, "lost"), (2, "lost")]
    assert len(lines(notes, "crash")) == 2
    others = [client.enqueue("quick") for _ in range(5)]
    for other in others:
        assert service_jobs.wait(other.id, timeout=20).status is Status.SUCCEEDED
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(30) == 0


@pytest.mark.parametrize("told", ["the supervisor", "every process"])
def test_supervised_workers_let_a_running_job_finish(
    told: str,
    service_jobs: Jobs,
    client: history.Client,
    launch: Launch,
    notes: Path,
    tmp_path: Path,
    eventually: Eventually,
) -> None:
    """A terminal and systemd tell every process, and the supervisor tells its own once more: that is one signal."""
    go_on = tmp_path / "go on"
    job = client.enqueue("hold", {"until": str(go_on)})
    parent = launch(processes=2)
    (begun,) = eventually(lambda: lines(notes, "begin"))
    if told == "every process":
        os.kill(int(begun[-1]), signal.SIGTERM)
    parent.send_signal(signal.SIGTERM)
    eventually(lambda: worker_states(service_jobs) <= {"draining", "stopped"})
    if told == "every process":
        # However late the other word comes: only the supervisor says when to give back.
        time.sleep(SAME_SIGNAL_SECONDS)
        os.kill(int(begun[-1]), signal.SIGTERM)
    go_on.touch()
    assert parent.wait(30) == 0
    assert service_jobs.get(job.id).result == 1


def test_a_second_signal_makes_supervised_workers_give_back_at_once(
    service_jobs: Jobs, client: history.Client, launch: Launch, notes: Path, tmp_path: Path, eventually: Eventually
) -> None:
    job = client.enqueue("hold", {"until": str(tmp_path / "never")})
    parent = launch(processes=1, shutdown_timeout=600)
    eventually(lambda: lines(notes, "begin"))
    parent.send_signal(signal.SIGTERM)
    eventually(lambda: worker_states(service_jobs) == {"draining"})
    time.sleep(SAME_SIGNAL_SECONDS)
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(60) == 0
    assert service_jobs.get(job.id).status is Status.QUEUED


def test_a_supervised_worker_that_an_operator_stops_is_not_started_again(
    service_jobs: Jobs, client: history.Client, launch: Launch, eventually: Eventually
) -> None:
    parent, admin = launch(processes=2), service_jobs.admin
    eventually(lambda: [worker.liveness for worker in admin.list_workers()] == ["running"] * 2)
    first, second = (worker.id for worker in admin.list_workers())
    admin.quiet_worker(second, actor="ada")
    eventually(lambda: admin.get_worker(second).liveness == "quiet")
    admin.stop_worker(first, actor="ada")
    eventually(lambda: admin.get_worker(first).liveness == "stopped")
    job = client.enqueue("quick")
    admin.resume_worker(second, actor="ada")
    assert service_jobs.wait(job.id, timeout=60).status is Status.SUCCEEDED
    admin.stop_worker(second, actor="ada")
    assert parent.wait(60) == 0
    assert {worker.id for worker in admin.list_workers()} == {first, second}


def test_workers_leave_when_their_supervisor_is_killed(
    service_jobs: Jobs, client: history.Client, launch: Launch, notes: Path, eventually: Eventually
) -> None:
    parent = launch(processes=2)
    service_jobs.wait(client.enqueue("quick").id, timeout=20)
    parent.kill()
    parent.wait()
    workers = service_jobs.storage.tables.workers
    with service_jobs.storage.engine.connect() as connection:
        eventually(lambda: set(connection.execute(select(workers.c.status)).scalars()) == {"stopped"})


# Steps

CHARGED = {"inside": 1, "effect": 2, "checkpoint": 1, "approved": 1}
"""How often a card is charged when the worker is killed at a place: before a checkpoint, once more."""
DONE = ["charged", {"by": "ada"}, "shipped"]


@pytest.mark.parametrize("place", CHARGED)
def test_a_worker_that_is_killed_at_a_step(
    service_jobs: Jobs,
    client: history.Client,
    launch: Launch,
    notes: Path,
    tmp_path: Path,
    eventually: Eventually,
    place: str,
) -> None:
    go_on = tmp_path / "go on"
    job = client.enqueue("stepped", {"hold": place, "until": str(go_on)})
    service_jobs.signal(job.id, "approved", {"by": "ada"})
    first = launch(lease=1)
    eventually(lambda: lines(notes, place))
    first.kill()
    first.wait()
    go_on.touch()
    launch()
    done = service_jobs.wait(job.id, timeout=60)
    assert (done.status, done.result) == ("succeeded", DONE)
    assert len(lines(notes, "charged")) == CHARGED[place]
    ended = [status for _, status in attempts(service_jobs, job.id)]
    assert sorted(ended) == ["lost", "succeeded", "suspended"]


def test_a_worker_that_is_killed_while_a_job_is_suspended(
    service_jobs: Jobs,
    client: history.Client,
    launch: Launch,
    notes: Path,
    tmp_path: Path,
    eventually: Eventually,
) -> None:
    job = client.enqueue("stepped", {"hold": "nowhere", "until": str(tmp_path / "never")})
    first = launch(lease=1)
    eventually(lambda: service_jobs.get(job.id).waiting_for)
    first.kill()
    first.wait()
    assert service_jobs.get(job.id).status == "waiting"
    launch()
    eventually(lambda: service_jobs.get(job.id).waiting_for == "signal")
    assert service_jobs.signal(job.id, "approved", {"by": "ada"})
    done = service_jobs.wait(job.id, timeout=60)
    assert (done.status, done.result, len(lines(notes, "charged"))) == ("succeeded", DONE, 1)
