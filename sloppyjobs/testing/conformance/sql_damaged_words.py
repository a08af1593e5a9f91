"""Words, conditions and instants beside the jobs that somebody has changed by hand: shown as far as they go."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Table, text

from sloppyjobs import NO_RETRY, Result, errors
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.fixtures import MakeStorage
from sloppyjobs.testing.conformance.records import unless_refused
from sloppyjobs.testing.conformance.sql_storage import sql_storage

WRITTEN_BY_HAND = {
    "sqlite": ("'soon'", "''", "'20000-01-01T00:00:00Z'", "datetime('now')"),
    "postgresql": ("'20000-01-01'", "'infinity'", "'-infinity'", "'0044-03-15 BC'"),
    "mysql": ("'0000-00-00'", "'9999-12-31 23:59:59.999999'"),
    "mssql": ("'0001-01-01'", "'9999-12-31T23:59:59'"),
}
"""Instants that no ``datetime`` holds, or that sort otherwise than ours."""


@pytest.fixture
def changed_jobs(make_storage: MakeStorage, clock: FakeClock) -> Jobs:
    """As ``jobs``, but nobody checks every history in the end."""
    return Jobs(make_storage(clock))


def change(jobs: Jobs, table: Table, values: str, where: str = "1 = 1") -> None:
    """Write what the library never would."""
    with unless_refused(), jobs.storage.engine.begin() as connection:
        connection.execute(text(f"UPDATE {table.fullname} SET {values} WHERE {where}"))


def _everything(read: Callable[..., Any], page_size: int, **wanted: Any) -> list[Any]:
    """All that a list has, forward, and then backward to its beginning."""
    found: list[Any] = []
    cursor = None
    for _ in range(50):
        page = read(cursor=cursor, page_size=page_size, **wanted)
        found += page.items
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    else:
        raise AssertionError("the list has no end")
    cursor = page.previous_cursor
    for _ in range(50):
        if cursor is None:
            return found
        cursor = read(cursor=cursor, page_size=page_size, **wanted).previous_cursor
    raise AssertionError("the list has no beginning")


@pytest.mark.parametrize("page_size", [1, 2])
def test_lists_end_whatever_instants_were_written_by_hand(changed_jobs: Jobs, clock: FakeClock, page_size: int) -> None:
    changed_jobs.declare("note")
    tables = sql_storage(changed_jobs).tables
    by_hand = WRITTEN_BY_HAND[sql_storage(changed_jobs).dialect.name]
    enqueued = []
    for _ in range(len(by_hand) + 3):
        enqueued.append(changed_jobs.enqueue("note", delay=3600, tags=("blue",)))
        clock.advance(1)
    for job, instant in zip(enqueued[1:], by_hand, strict=False):
        change(changed_jobs, tables.jobs, f"created_at = {instant}, run_at = {instant}", f"id = '{job.id}'")
        change(changed_jobs, tables.tags, f"created_at = {instant}", f"job_id = '{job.id}'")
    whole = {job.id for job in changed_jobs.admin.list_jobs(page_size=100)}
    assert whole == {job.id for job in enqueued}
    untouched = {enqueued[0].id, *(job.id for job in enqueued[len(by_hand) + 1 :])}
    for wanted in (
        {"order": "created_at"},
        {"order": "-created_at"},
        {"order": "run_at", "status": ("scheduled", "retrying")},
        {"order": "-run_at", "status": ("scheduled", "retrying")},
        {"tag": "blue"},
    ):
        found = [job.id for job in _everything(changed_jobs.admin.list_jobs, page_size, **wanted)]
        assert len(found) == len(set(found)), wanted
        assert untouched <= set(found) <= whole, wanted


def test_jobs_of_years_that_no_datetime_holds_are_all_in_a_list_of_single_ones(changed_jobs: Jobs) -> None:
    changed_jobs.declare("note")
    enqueued = [changed_jobs.enqueue("note") for _ in range(5)]
    jobs = sql_storage(changed_jobs).tables.jobs
    far = {"postgresql": "'{year}-01-01'", "sqlite": "'soon {year}'"}.get(sql_storage(changed_jobs).dialect.name)
    for number, job in enumerate(enqueued[:4]):
        if far is not None:
            change(changed_jobs, jobs, f"created_at = {far.format(year=90000 - number)}", f"id = '{job.id}'")
    for order in ("created_at", "-created_at"):
        found = [job.id for job in _everything(changed_jobs.admin.list_jobs, 1, order=order)]
        assert sorted(found) == sorted(job.id for job in enqueued)


def test_workers_and_alerts_with_such_instants_are_in_lists_that_end(changed_jobs: Jobs, clock: FakeClock) -> None:
    changed_jobs.declare("note")
    by_hand = WRITTEN_BY_HAND[sql_storage(changed_jobs).dialect.name]
    for number in range(len(by_hand) + 2):
        changed_jobs.storage.workers.register(changed_jobs.create_worker(id=f"w{number}").info())
        clock.advance(1)
    for number, instant in enumerate(by_hand):
        change(changed_jobs, sql_storage(changed_jobs).tables.workers, f"heartbeat_at = {instant}", f"id = 'w{number}'")
    found = [worker.id for worker in _everything(changed_jobs.admin.list_workers, 1)]
    assert len(found) == len(set(found))
    assert {f"w{len(by_hand)}", f"w{len(by_hand) + 1}"} <= set(found)


def test_a_batch_whose_status_is_none_is_shown_as_damaged_and_others_go_on(changed_jobs: Jobs) -> None:
    changed_jobs.define("note", lambda ctx, payload: payload)
    batches = []
    for number in range(3):
        with changed_jobs.batch(f"batch-{number}") as batch:
            batch.enqueue("note", number)
        batches.append(batch.id)
    change(changed_jobs, sql_storage(changed_jobs).tables.batches, "status = 'zombie'", f"id = '{batches[1]}'")
    changed_jobs.create_worker().run_once()
    shown = {batch.id: batch for batch in _everything(changed_jobs.admin.list_batches, 1)}
    assert list(shown) == batches[::-1]
    assert [shown[id].status for id in batches[::2]] == ["succeeded", "succeeded"]
    damaged = changed_jobs.admin.get_batch(batches[1])
    assert damaged.damage == "status is 'zombie', which is none"
    assert damaged.damage in damaged.explanation
    assert (damaged.succeeded, damaged.actions, shown[batches[0]].damage) == (1, (), None)
    for command in ("seal_batch", "cancel_batch", "retry_batch"):
        with pytest.raises(errors.InvalidTransition, match="'zombie', which is none"):
            getattr(changed_jobs.admin, command)(batches[1])


def test_a_share_of_success_that_is_none_ends_its_batch_all_the_same(changed_jobs: Jobs) -> None:
    changed_jobs.define("note", lambda ctx, payload: payload)
    with changed_jobs.batch("all") as batch:
        batch.enqueue("note", 1)
    change(changed_jobs, sql_storage(changed_jobs).tables.batches, "success_rate = -7")
    changed_jobs.create_worker().run_once()
    shown = changed_jobs.admin.get_batch(batch.id)
    assert shown.status == "succeeded"
    assert shown.damage is not None
    assert "success_rate is -7" in shown.damage


def test_a_workflow_whose_status_is_none_stands_as_its_jobs_do(changed_jobs: Jobs) -> None:
    changed_jobs.define("note", lambda ctx, payload: payload)
    with changed_jobs.workflow("flow") as flow:
        flow.add("note", 1)
    change(changed_jobs, sql_storage(changed_jobs).tables.workflows, "status = 'zombie'")
    assert changed_jobs.admin.get_workflow(flow.id).status == "running"
    changed_jobs.create_worker().run_once()
    done = changed_jobs.admin.get_workflow(flow.id)
    assert (done.status, done.counts) == ("succeeded", {"succeeded": 1})
    assert changed_jobs.admin.workflow_graph(flow.id).jobs


@pytest.mark.parametrize("condition", ["'5'", "'{'", """'["/rows", "almost", 0]'"""])
def test_a_condition_that_cannot_be_read_is_not_met_and_its_parent_ends(changed_jobs: Jobs, condition: str) -> None:
    changed_jobs.define("note", lambda ctx, payload: payload)
    with changed_jobs.workflow("flow") as flow:
        parent = flow.add("note", {"rows": 1})
        child = flow.add("note", after=parent, when=Result("/rows", ">", 0))
    other = changed_jobs.enqueue("note", 1)
    change(changed_jobs, sql_storage(changed_jobs).tables.dependencies, f"result_test = {condition}")
    assert changed_jobs.admin.workflow_graph(flow.id).jobs
    changed_jobs.create_worker().run_once()
    statuses = [changed_jobs.get(job.id).status for job in (parent, other, child)]
    assert statuses == ["succeeded", "succeeded", "cancelled"]


def test_an_edge_whose_state_is_none_is_shown(changed_jobs: Jobs) -> None:
    changed_jobs.declare("note")
    parent = changed_jobs.enqueue("note")
    child = changed_jobs.enqueue("note", depends_on=parent)
    change(changed_jobs, sql_storage(changed_jobs).tables.dependencies, "state = 7")
    change(changed_jobs, sql_storage(changed_jobs).tables.jobs, "status = 'zombie'", f"id = '{parent.id}'")
    assert [job.job_id for job in changed_jobs.admin.dependencies(child.id).parents] == [parent.id]
    assert changed_jobs.admin.explain(child.id).reasons


@pytest.mark.parametrize("column", ["kind", "state"])
def test_a_step_whose_words_are_none_is_shown_and_fails_its_job_alone(
    changed_jobs: Jobs, clock: FakeClock, column: str
) -> None:
    def handler(ctx: Any, payload: Any) -> Any:
        ctx.step("first", lambda: 1)
        ctx.sleep("nap", 60)
        return "done"

    changed_jobs.define("stepping", handler)
    damaged, other = (changed_jobs.enqueue("stepping", max_attempts=1) for _ in range(2))
    worker = changed_jobs.create_worker()
    worker.run_once()
    steps = sql_storage(changed_jobs).tables.steps
    change(changed_jobs, steps, f"{column} = 'zombie'", f"job_id = '{damaged.id}' AND name = 'first'")
    shown = {"state": ["first", "nap"], "kind": ["nap"]}[column]
    assert [step.name for step in _everything(partial(changed_jobs.admin.steps, damaged.id), 1)] == shown
    assert changed_jobs.admin.explain(damaged.id).reasons
    clock.advance(61)
    worker.run_once()
    assert changed_jobs.get(other.id).result == "done"
    ended = changed_jobs.get(damaged.id)
    assert (ended.status, ended.error_type) == ("dead", "sloppyjobs.errors.InvalidStep")
    assert "'zombie', which is none" in str(ended.error_message)


def test_a_key_that_is_held_by_a_status_that_is_none_stays_taken(changed_jobs: Jobs) -> None:
    changed_jobs.declare("note")
    job = changed_jobs.enqueue("note", business_key="one")
    change(changed_jobs, sql_storage(changed_jobs).tables.jobs, "status = 'zombie'")
    with pytest.raises(errors.KeyConflict):
        changed_jobs.enqueue("note", business_key="one", on_conflict="reject")
    with pytest.raises(errors.InvalidTransition):
        changed_jobs.admin.patch_payload(job.id, {"n": 1})


NO_NUMBERS = {
    "postgresql": ("per_seconds = 'NaN'", "per_seconds = 'Infinity'"),
    "sqlite": ("per_seconds = 'long'", "concurrency = 'many'", "rate = 'fast'", "per_seconds = 9e999"),
}


@pytest.mark.parametrize("concurrency", [None, 5])
def test_a_limit_with_numbers_that_make_no_sense_breaks_no_claim_and_no_sweep(
    changed_jobs: Jobs, concurrency: int | None
) -> None:
    changed_jobs.define("note", lambda ctx, payload: payload)
    storage = sql_storage(changed_jobs)
    of_this = NO_NUMBERS.get(storage.dialect.name, ())
    for number, values in enumerate(("per_seconds = 1e300", "per_seconds = 0", "rate = 0", "rate = -1", *of_this)):
        name = f"api-{number}"
        changed_jobs.limit(name, concurrency=concurrency, rate=5, per=60)
        change(changed_jobs, storage.tables.limits, values, f"name = '{name}'")
        limited, other = changed_jobs.enqueue("note", 1, resource=name), changed_jobs.enqueue("note", 2)
        changed_jobs.create_worker().run_once()
        changed_jobs.storage.sweep()
        assert changed_jobs.get(other.id).status == "succeeded", values
        assert changed_jobs.get(limited.id).status == "waiting", values
        assert "set it anew" in changed_jobs.admin.explain(limited.id).reasons[0].text, values
        assert changed_jobs.admin.limit_details(name), values
        changed_jobs.admin.set_limit(name, concurrency=1, rate=None)
        changed_jobs.create_worker().run_once()
        assert changed_jobs.get(limited.id).status == "succeeded", values


@pytest.mark.parametrize("queues", ["'5'", "'{'"])
def test_a_retry_of_a_cause_whose_queues_cannot_be_read_stops_no_worker(changed_jobs: Jobs, queues: str) -> None:
    def fail(ctx: Any, payload: Any) -> None:
        raise LookupError("no such thing")

    changed_jobs.define("failing", fail)
    changed_jobs.define("note", lambda ctx, payload: payload)
    dead = [changed_jobs.enqueue("failing", max_attempts=1, retry=NO_RETRY) for _ in range(3)]
    worker = changed_jobs.create_worker()
    worker.run_once()
    [group] = changed_jobs.admin.dead_groups()
    changed_jobs.admin.retry_canary(group.cause, count=1)
    worker.run_once()
    changed_jobs.admin.retry_rest(group.cause, rate=60)
    change(changed_jobs, sql_storage(changed_jobs).tables.retry_runs, f"queues = {queues}")
    other = changed_jobs.enqueue("note")
    worker.run_once()
    assert changed_jobs.get(other.id).status == "succeeded"
    assert [changed_jobs.get(job.id).status for job in dead[1:]] == ["dead", "dead"]
    assert changed_jobs.admin.get_cause(group.cause).jobs


def test_a_schedule_whose_defaults_cannot_be_read_says_so(changed_jobs: Jobs) -> None:
    changed_jobs.define("note", lambda ctx, payload: payload)
    changed_jobs.recurring("hourly", "note", {}, every=3600)
    change(changed_jobs, sql_storage(changed_jobs).tables.recurring, "job_defaults = '5'")
    with pytest.raises(errors.InvalidSchedule, match="job_defaults"):
        changed_jobs.admin.trigger_recurring("hourly")
    changed_jobs.recurring("hourly", "note", {}, every=3600)
    assert changed_jobs.admin.trigger_recurring("hourly").status == "queued"
