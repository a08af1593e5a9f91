"""The schema's version: checked before anything is written, and never touched when it is newer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import text

from sloppyjobs import errors
from sloppyjobs.domain.model import Claim
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.schema.version import VERSION
from sloppyjobs.testing.conformance.fixtures import MakeStorage
from sloppyjobs.testing.conformance.records import count
from sloppyjobs.testing.conformance.sql_storage import sql_storage


@pytest.fixture
def versioned(make_storage: MakeStorage) -> tuple[Jobs, Jobs]:
    """Two ``Jobs`` that have not checked the schema yet: one to damage it by, one to see what happens."""
    return Jobs(make_storage()), Jobs(make_storage())


def _set_version(jobs: Jobs, version: int | None) -> None:
    name = sql_storage(jobs).tables.schema_name
    with jobs.storage.engine.begin() as connection:
        if version is None:
            connection.execute(text(f"DELETE FROM {name}"))
        else:
            connection.execute(text(f"UPDATE {name} SET version_num = :version"), {"version": f"{version:04}"})


def test_init_can_be_repeated_and_returns_the_version(jobs: Jobs) -> None:
    jobs.declare("greet")
    job = jobs.enqueue("greet")
    assert [jobs.storage.init(), jobs.storage.init()] == [VERSION, VERSION]
    assert jobs.storage.schema_version() == VERSION
    assert jobs.get(job.id) == job


def test_a_newer_schema_is_refused_and_nothing_is_written(versioned: tuple[Jobs, Jobs]) -> None:
    one, jobs = versioned
    jobs.declare("greet")
    _set_version(one, VERSION + 1)
    with pytest.raises(errors.SchemaVersionMismatch, match=r"newer.*upgrade sloppyjobs"):
        jobs.storage.init()
    with pytest.raises(errors.SchemaVersionMismatch, match="newer"):
        jobs.enqueue("greet")
    with pytest.raises(errors.SchemaVersionMismatch, match="newer"):
        jobs.enqueue_many([("greet",)] * 3)
    assert (count(one), jobs.storage.schema_version()) == (0, VERSION + 1)


def test_a_newer_schema_is_refused_in_the_callers_transaction(versioned: tuple[Jobs, Jobs]) -> None:
    one, jobs = versioned
    jobs.declare("greet")
    _set_version(one, VERSION + 1)
    with jobs.storage.engine.begin() as connection, pytest.raises(errors.SchemaVersionMismatch):
        jobs.enqueue("greet", connection=connection)
    assert count(one) == 0


def test_an_older_schema_says_which_command_upgrades_it(versioned: tuple[Jobs, Jobs]) -> None:
    one, jobs = versioned
    jobs.declare("greet")
    _set_version(one, VERSION - 1)
    with pytest.raises(errors.SchemaVersionMismatch, match=r"upgrade it with .*sloppyjobs --database .* init"):
        jobs.enqueue("greet")
    assert count(one) == 0


def test_a_missing_schema_says_which_command_creates_it(versioned: tuple[Jobs, Jobs]) -> None:
    one, jobs = versioned
    jobs.declare("greet")
    jobs.define("work", lambda ctx, payload: None)
    claim = _a_claim(one)
    _set_version(one, None)
    asked: list[Callable[[], object]] = [
        lambda: jobs.enqueue("greet"),
        lambda: jobs.enqueue_many([("greet",)]),
        lambda: jobs.get("job_1"),
        lambda: jobs.wait("job_1"),
        lambda: jobs.claim("w1"),
        lambda: jobs.heartbeat(claim),
        lambda: jobs.complete(claim),
        lambda: jobs.fail(claim, "no"),
        lambda: jobs.locks("me").acquire("a"),
        lambda: jobs.locks("me").extend("a"),
        lambda: jobs.locks("me").release("a"),
        lambda: jobs.create_worker().run_once(),
        lambda: jobs.create_worker().start(),
        jobs.tick_recurring,
        jobs.admin.overview,
    ]
    for ask in asked:
        with pytest.raises(errors.SchemaMissing, match=r"create them with .*sloppyjobs --database .* init"):
            ask()
    _set_version_anew(one)


def _a_claim(jobs: Jobs) -> Claim:
    jobs.declare("greet")
    jobs.enqueue("greet")
    return jobs.claim("w1")[0]


def _set_version_anew(jobs: Jobs) -> None:
    name = sql_storage(jobs).tables.schema_name
    with jobs.storage.engine.begin() as connection:
        connection.execute(text(f"INSERT INTO {name} (version_num) VALUES ('{VERSION:04}')"))


def test_a_password_is_not_shown_in_the_message(versioned: tuple[Jobs, Jobs]) -> None:
    one, jobs = versioned
    _set_version(one, VERSION + 1)
    with pytest.raises(errors.SchemaVersionMismatch) as refused:
        jobs.get("job_1")
    password = jobs.storage.engine.url.password
    assert not password or str(password) not in str(refused.value)
