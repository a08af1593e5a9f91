"""The sample shop: jobs of every state, schedules, and secrets that nothing shows."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
import warm_start
from click.testing import CliRunner

from sloppyjobs import demo
from sloppyjobs.cli import main
from sloppyjobs.cli.document import document
from sloppyjobs.demo import history
from sloppyjobs.domain.states import Status

SECRETS = (
    "demo-smtp-password",
    "demo-gateway-password",
    "demo-receipt-token",
    "demo-mail-api-key",
    "demo-rates-api-key",
    "DEMO-COUPON-10",
    "4000000000000002",
)


@pytest.fixture
def shop(ready_sqlite_url: str):
    jobs = demo.create_jobs(ready_sqlite_url)
    yield jobs
    jobs.storage.close()


@pytest.fixture(scope="module")
def filled_file(prepare_sqlite: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop that has been filled, to be copied: filling one takes longer than most tests."""
    file = tmp_path_factory.mktemp("filled") / "jobs.db"
    jobs = demo.create_jobs(prepare_sqlite(file))
    demo.fill(jobs, 60, seed=2)
    jobs.storage.close()
    return file


@pytest.fixture
def filled(filled_file: Path, tmp_path: Path):
    file = tmp_path / "filled.db"
    with closing(sqlite3.connect(filled_file)) as source, closing(sqlite3.connect(file)) as copy:
        source.backup(copy)
    jobs = demo.create_jobs(f"sqlite:///{file}")
    yield jobs
    jobs.storage.close()


def test_the_shop_has_jobs_of_every_state_and_dead_ones_of_several_causes(filled) -> None:
    shop = filled
    overview = shop.admin.overview()
    assert {one.status for one in overview.statuses if one.count} == set(Status) - {Status.FAILED}
    assert {flow.status for flow in shop.admin.list_workflows()} == {"waiting", "blocked"}
    assert len(shop.admin.dead_groups()) >= 4
    assert {one.name for one in shop.admin.list_recurring()} == {
        "refresh-rates",
        "nightly-import",
        "newsletter",
        "legacy-sync",
    }
    assert shop.admin.stats(240).total.succeeded > 10


def test_the_past_of_the_shop_has_something_for_every_page(shop) -> None:
    history.add_history(shop)
    demo.fill(shop, 5, seed=1)
    history.add_trouble(shop)
    admin = shop.admin
    assert {one.status for one in admin.list_jobs(schedule="nightly-import")} == {Status.SUCCEEDED, Status.DEAD}
    assert admin.get_recurring("nightly-import").missed
    assert len(admin.dead_groups()) >= 5
    [lost] = admin.overview().stale_workers
    assert lost.id == history.LOST
    held = [one for one in admin.list_jobs("processing") if one.locked_by == history.LOST]
    assert {admin.explain(one.id).reasons[0].code for one in held} == {"lease_expired", "worker_gone"}
    assert {one.name for one in admin.list_locks()} == {"stock-count", "catalog-import"}
    assert set(admin.overview().paused_queues) == {"newsletters", "returns"}


def test_the_past_can_be_added_again(shop) -> None:
    for _ in range(2):
        history.add_history(shop)
        history.add_trouble(shop)
    assert len(shop.admin.overview().stale_workers) == 1


def test_the_shop_can_be_filled_again(filled) -> None:
    demo.fill(filled, 5, seed=2)
    assert filled.admin.overview().count("paused").value == 4


def test_nothing_that_is_shown_of_the_shop_holds_a_secret(filled) -> None:
    admin = filled.admin
    shown = [admin.overview(), admin.list_recurring(), admin.dead_groups(), admin.audit()]
    for job in admin.list_jobs(page_size=500):
        shown += [admin.get_job(job.id), admin.attempts(job.id), admin.events(job.id), admin.logs(job.id)]
    text = msgspec.json.encode(shown).decode()
    assert "[redacted]" in text
    assert [secret for secret in SECRETS if secret in text] == []


def test_jobs_keep_coming_at_a_rate_until_told_to_stop(shop) -> None:
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    written = demo.keep_enqueueing(shop, 100, stop, seed=1)
    assert 10 <= written <= 120
    assert shop.admin.overview().count("queued").value == written


def test_every_sample_fits_its_definition(shop) -> None:
    shop.enqueue_many(list(islice(demo.samples(random.Random(3), slow=True), 300)))
    assert shop.admin.overview().count("queued").value == 300


def test_the_command_fills_a_database_and_goes_on_for_a_while(sqlite_url: str) -> None:
    result = CliRunner().invoke(
        main, ["--database", sqlite_url, "demo", "--count", "12", "--rate", "20", "--duration", "1"]
    )
    assert result.exit_code == 0, result.output
    assert "filled with about 12 jobs of every state, and 4 schedules" in result.stdout
    assert "more jobs" in result.stdout


def test_the_command_brings_its_own_application() -> None:
    result = CliRunner().invoke(main, ["--app", "sloppyjobs.demo:jobs", "demo"])
    assert result.exit_code == 2 and "demo brings an application of its own" in result.output


@pytest.mark.slow
def test_serving_stops_cleanly_when_it_is_told_to(tmp_path: Path, eventually: Callable[..., Any]) -> None:
    url = f"sqlite:///{tmp_path}/var/demo.db"
    command = [
        sys.executable,
        "-m",
        "sloppyjobs.cli",
        "--database",
        url,
        "demo",
        "--serve",
        "--count",
        "20",
        "--port",
        "18400",
    ]
    with warm_start.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as serving:
        assert serving.stdout is not None
        lines = []
        for line in serving.stdout:
            lines.append(line)
            if line.startswith("a worker runs"):
                break
        jobs = demo.create_jobs(url)
        # Its row is written by a thread, and those of the past are all lost.
        eventually(lambda: "running" in {worker.liveness for worker in jobs.admin.list_workers()})
        serving.send_signal(signal.SIGINT)
        rest = serving.communicate(timeout=60)[0]
    assert serving.returncode == 0, "".join(lines) + rest
    assert "stopping" in rest and "Traceback" not in rest
    assert {worker.id == history.LOST: worker.liveness for worker in jobs.admin.list_workers()} == {
        False: "stopped",
        True: "stale",
    }
    jobs.storage.close()


@pytest.mark.slow
def test_the_page_of_the_documentation_is_the_same_every_time() -> None:
    page = document()
    assert page == document()
    assert [secret for secret in SECRETS if secret in page] == []
