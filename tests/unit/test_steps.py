"""Bounds of steps, and what they cost a handler that has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import event

from sloppyjobs import InvalidOption, InvalidStep, Jobs, Keyring, Retry
from sloppyjobs.domain import steps as domain
from sloppyjobs.domain.steps import decode_result
from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.jobs import signals
from sloppyjobs.worker import steps as worker_steps


@pytest.fixture
def database_url(ready_sqlite_url: str) -> str:
    return ready_sqlite_url


@pytest.fixture
def jobs(make_storage: Callable[..., SqlStore]) -> Jobs:
    return Jobs(make_storage())


@pytest.fixture
def about_steps(jobs: Jobs) -> Iterator[list[str]]:
    """The statements that name the table of steps, sweeps apart."""
    found: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "job_steps" in statement:
            found.append(statement.split(maxsplit=1)[0])

    event.listen(jobs.storage.engine, "before_cursor_execute", note)
    yield found
    event.remove(jobs.storage.engine, "before_cursor_execute", note)


def test_a_job_has_a_bounded_number_of_steps(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_steps, "MOST", 3)
    monkeypatch.setattr(signals, "MOST", 3)
    jobs.define("many", lambda ctx, payload: [ctx.step(f"n{n}", int) for n in range(4)], retry=Retry(max_attempts=1))
    job = jobs.enqueue("many")
    jobs.create_worker().run_once()
    assert (jobs.get(job.id).error_code, len(jobs.admin.steps(job.id))) == ("SLOPPY_E_JOBS_INVALID_STEP", 3)
    jobs.admin.retry(job.id)
    with pytest.raises(InvalidStep, match="can have 3"):
        jobs.signal(job.id, "one-more")


def test_results_of_one_job_are_bounded_together(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_steps, "RESULTS_LIMIT", 100)
    retry = Retry(max_attempts=2, backoff="none")
    jobs.define("large", lambda ctx, payload: [ctx.step(f"n{n}", str, "x" * 40) for n in range(3)], retry=retry)
    job = jobs.enqueue("large")
    jobs.create_worker().run_until_idle()
    assert "126 bytes" in str(jobs.get(job.id).error_message), "those of earlier attempts count"
    assert len(jobs.admin.steps(job.id)) == 2


def test_a_handler_without_steps_reads_none(jobs: Jobs, about_steps: list[str]) -> None:
    retry = Retry(max_attempts=3, backoff="none", jitter=False)

    @jobs.define("plain", retry=retry)
    def plain(ctx: Any, _payload: Any) -> None:
        if ctx.attempt < 3:
            raise ValueError("again")

    jobs.enqueue("plain")
    jobs.create_worker().run_until_idle()
    assert about_steps == []


def test_a_first_attempt_reads_no_steps_and_a_later_one_reads_them_once(jobs: Jobs, about_steps: list[str]) -> None:
    retry = Retry(max_attempts=2, backoff="none", jitter=False)

    @jobs.define("stepped", retry=retry)
    def stepped(ctx: Any, _payload: Any) -> None:
        for number in range(3):
            ctx.step(f"n{number}", int)
        if ctx.attempt == 1:
            raise ValueError("again")

    jobs.enqueue("stepped")
    jobs.create_worker().run_once()
    assert about_steps == ["INSERT"] * 3
    about_steps.clear()
    jobs.create_worker().run_once()
    assert about_steps == ["SELECT"]


def test_a_name_that_only_type_checkers_know_is_no_type() -> None:
    def odd() -> Unknown:  # type: ignore[name-defined]  # noqa: F821
        return None

    assert decode_result("odd", '{"a": 1}', odd) == {"a": 1}
    assert decode_result("partial", "3", int) == 3


@pytest.mark.parametrize(("wanted", "stored", "value"), [(tuple[int, str], '[1,"a"]', (1, "a")), (Any, "[1]", [1])])
def test_a_result_becomes_what_its_function_returns(wanted: Any, stored: str, value: Any) -> None:
    def step() -> Any: ...

    step.__annotations__["return"] = wanted
    domain._return_type.cache_clear()
    assert decode_result("step", stored, step) == value


def test_results_and_signals_are_encrypted_with_the_jobs_keys(make_storage: Callable[..., SqlStore]) -> None:
    jobs = Jobs(make_storage(), encryption=Keyring([Keyring.generate()]))

    @jobs.define("secret", retry=Retry(max_attempts=2, backoff="none"))
    def secret(ctx: Any, _payload: Any) -> Any:
        first = ctx.step("first", lambda: {"word": "canary"})
        return [first, ctx.wait_for("approved"), ctx.wait_for("paid")]

    job = jobs.enqueue("secret")
    assert jobs.signal(job.id, "approved", "canary")
    jobs.create_worker().run_until_idle()
    assert jobs.admin.signal(job.id, "paid", ["canary"])
    jobs.create_worker().run_until_idle()
    assert jobs.get(job.id).result == [{"word": "canary"}, "canary", ["canary"]]
    stored = [step.result for step in jobs.storage.inspection.steps()]
    assert len(stored) == 3
    assert not any("canary" in str(result) for result in stored)
    assert all("canary" in str(step.result_preview) for step in jobs.admin.steps(job.id))


def test_what_is_no_function_is_no_step(jobs: Jobs) -> None:
    def charge(ctx: Any, payload: None) -> None:
        with pytest.raises(InvalidOption, match="must be a function") as refused:
            ctx.step("charge", None)
        assert refused.value.field == "function"

    async def charge_later(ctx: Any, payload: None) -> None:
        with pytest.raises(InvalidOption, match="must be a function"):
            await ctx.step("charge", None)

    jobs.define("charge", charge)
    jobs.define("charge-later", charge_later)
    written = jobs.enqueue_many([("charge", None), ("charge-later", None)])
    jobs.create_worker().run_once()
    assert [jobs.get(job.id).status for job in written] == ["succeeded"] * 2
