"""Guessing is slow, whichever process, address or kind of secret is tried; and nobody locks out anybody else."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from hosts import PREFIX, make_app
from sqlalchemy import text

import webui
from sloppyjobs import Jobs, storage
from sloppyjobs.storage import FakeClock
from webui import throttle
from webui.throttle import ROWS, TRIES, network

TOKEN = "t0k3n"
LONG_TOKEN = "a-token-of-more-than-thirty-two-characters"


@pytest.fixture(autouse=True)
def spared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a refused client, each process looks at one try; the next would be due long after the test."""
    monkeypatch.setattr(throttle, "ADMIT_EVERY_SECONDS", 3600.0)


@pytest.fixture
def kept(database_url: str) -> Iterator[Jobs]:
    """Jobs on each database."""
    jobs = Jobs(database_url)
    yield jobs
    jobs.storage.close()


def _process(jobs: Jobs, **options: Any) -> Flask:
    """The UI as one more server process has it: nothing in memory is shared."""
    app = Flask("host")
    app.config.update(SECRET_KEY="tests", TESTING=True)
    tokens = webui.TokenPolicy({"short": TOKEN, "long": LONG_TOKEN})
    policy = webui.BasicAuthPolicy("ops", "s3cret")
    app.register_blueprint(webui.create_blueprint(jobs, policy, api_policy=tokens, **options), url_prefix=PREFIX)
    return app


def _page(app: Flask, password: str, address: str = "203.0.113.7") -> int:
    client = app.test_client()
    return client.get(
        f"{PREFIX}/queues", auth=("ops", password), environ_base={"REMOTE_ADDR": address}
    ).status_code  # fmt: skip


def _api(app: Flask, token: str, address: str = "203.0.113.7") -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    return app.test_client().get(f"{PREFIX}/api/v1/queues", headers=headers, environ_base={"REMOTE_ADDR": address})


def test_wrong_passwords_are_counted_by_all_processes_together(kept: Jobs) -> None:
    processes = [_process(kept) for _ in range(3)]
    for number in range(TRIES):
        assert _page(processes[number % 3], "wrong") in (401, 429)
    for process in [*processes, _process(kept)]:
        assert _page(process, "wrong") == 429
        assert _page(process, "s3cret") == 429, "else guessing would not be slower: the wrong one was looked at"
        assert _page(process, "s3cret", "203.0.113.8") == 200


def test_an_ipv6_network_is_one_client(kept: Jobs) -> None:
    app = _process(kept)
    for number in range(TRIES):
        _page(app, "wrong", f"2001:db8:1:2::{number + 1:x}")
    assert _page(app, "wrong", "2001:db8:1:2:ffff:ffff:ffff:ffff") == 429
    assert _page(app, "s3cret", "2001:db8:1:2:ffff:ffff:ffff:ffff") == 429
    assert _page(app, "s3cret", "2001:db8:1:3::1") == 200


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", "a local socket"),
        (None, "a local socket"),
        ("nonsense", "a local socket"),
    ],
)
def test_which_addresses_are_one_client(address: str | None, client: str) -> None:
    assert network(address) == client


def test_a_browser_that_has_signed_in_is_not_locked_out_by_others(kept: Jobs) -> None:
    app = _process(kept)
    known, where = app.test_client(), {"REMOTE_ADDR": "203.0.113.7"}
    assert known.get(f"{PREFIX}/queues", auth=("ops", "s3cret"), environ_base=where).status_code == 200
    for _ in range(TRIES):
        _page(app, "wrong")
    for process in (app, _process(kept)):
        assert _page(process, "wrong") == _page(process, "s3cret") == 429
    assert known.get(f"{PREFIX}/queues", auth=("ops", "s3cret"), environ_base=where).status_code == 200
    # It is no way around the throttle: its own failures are counted.
    for _ in range(TRIES):
        assert known.get(f"{PREFIX}/queues", auth=("ops", "wrong"), environ_base=where).status_code == 429
    assert known.get(f"{PREFIX}/queues", auth=("ops", "s3cret"), environ_base=where).status_code == 429


def test_a_right_password_does_not_count_and_does_not_forgive(kept: Jobs) -> None:
    app = _process(kept)
    for _ in range(TRIES * 2):
        assert _page(app, "s3cret") == 200
    for _ in range(TRIES - 1):
        assert _page(app, "wrong") == 401
        assert _page(app, "s3cret") == 200
    _page(app, "wrong")
    assert _page(app, "wrong") == _page(app, "s3cret") == 429


def test_a_right_password_comes_in_although_others_guess(kept: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    app = _process(kept)
    for _ in range(TRIES):
        _page(app, "wrong")
    assert _page(app, "s3cret") == 200
    # Right and wrong tries take turns, so that many guesses are not faster than few.
    assert _page(app, "s3cret") == 429
    monkeypatch.setattr(throttle, "ADMIT_EVERY_SECONDS", 0.0)
    assert _page(app, "wrong") == 429
    assert _page(app, "s3cret") == 200


def test_guesses_of_tokens_are_throttled_too(kept: Jobs) -> None:
    processes = [_process(kept) for _ in range(2)]
    for number in range(TRIES):
        _api(processes[number % 2], f"guess-{number}")
    for process in processes:
        refused = _api(process, "one more")
        assert refused.status_code == 429
        assert refused.json["error"]["code"] == "TOO_MANY_TRIES"
        assert 0 < int(refused.headers["Retry-After"]) <= 60
        assert _api(process, TOKEN).status_code == 429, "the wrong one was looked at"
        assert _api(process, LONG_TOKEN).status_code == 200, "no guess, and it must not be locked out by an old script"
        assert _page(process, "s3cret") == 200, "a script with a wrong token does not close the pages"


def test_the_door_opens_again_after_a_minute(tmp_path: Path) -> None:
    clock = FakeClock(datetime(2026, 3, 1, tzinfo=UTC))
    jobs = Jobs(storage.from_url(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock))
    jobs.storage.init()
    for _ in range(TRIES):
        jobs.admin.count_failure("somebody")
    assert jobs.admin.failures("somebody") == (TRIES, 60.0)
    clock.advance(59)
    assert jobs.admin.failures("somebody") == (TRIES, 1.0)
    clock.advance(1)
    assert jobs.admin.failures("somebody") == (0, 0.0)
    jobs.admin.count_failure("somebody")
    assert jobs.admin.failures("somebody") == (1, 60.0)
    assert jobs.admin.failures("somebody else") == (0, 0.0)
    jobs.storage.close()


def test_failures_at_the_same_time_are_all_counted(kept: Jobs) -> None:
    with ThreadPoolExecutor(8) as crowd:
        list(crowd.map(lambda _: kept.admin.count_failure("crowd", 600), range(40)))
    assert kept.admin.failures("crowd", 600)[0] == 40


def _rows(jobs: Jobs) -> int:
    with jobs.storage.engine.connect() as connection:
        return int(connection.execute(text(f"SELECT count(*) FROM {jobs.storage.tables.throttles.name}")).scalar_one())


def test_the_table_is_bounded_and_a_purge_empties_it(tmp_path: Path) -> None:
    clock = FakeClock(datetime(2026, 3, 1, tzinfo=UTC))
    jobs = Jobs(storage.from_url(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock))
    jobs.storage.init()
    app = _process(jobs)
    for number in range(50):
        _page(app, "wrong", f"198.51.{number}.1")
    assert 40 <= _rows(jobs) <= 50
    with app.app_context():
        from webui.throttle import _row

        assert len({_row("password", str(number)) for number in range(20 * ROWS)}) <= ROWS
    jobs.admin.purge()
    assert _rows(jobs) > 0, "a span that may still matter stays"
    clock.advance(timedelta(days=2).total_seconds())
    jobs.admin.purge()
    assert _rows(jobs) == 0
    jobs.storage.close()


def test_no_address_is_written_down(tmp_path: Path) -> None:
    jobs = Jobs(f"sqlite:///{tmp_path / 'jobs.db'}")
    jobs.storage.init()
    _page(_process(jobs), "wrong", "198.51.100.200")
    jobs.storage.close()
    assert b"198.51.100" not in (tmp_path / "jobs.db").read_bytes()


def test_without_a_database_each_process_counts_for_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    down = Jobs(f"sqlite:///{tmp_path / 'no' / 'folder' / 'x.db'}")
    app = _process(down)
    assert _page(app, "s3cret") == 503, "signed in, and told that the database does not answer"
    for _ in range(TRIES):
        assert _page(app, "wrong") in (401, 429)
    assert _page(app, "wrong") == _page(app, "s3cret") == 429
    assert _page(app, "s3cret", "203.0.113.8") == 503
    said = [record for record in caplog.records if "counted in this process" in record.getMessage()]
    assert len(said) == 1


def test_tables_of_an_older_version_do_not_lock_anybody_out(tmp_path: Path) -> None:
    jobs = Jobs(f"sqlite:///{tmp_path / 'empty.db'}")
    app = make_app(jobs, webui.BasicAuthPolicy("ops", "s3cret"))
    response = app.test_client().get(f"{PREFIX}/queues", auth=("ops", "s3cret"))
    assert response.status_code == 503
    assert "The tables are missing" in response.text
