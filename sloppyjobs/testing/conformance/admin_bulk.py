"""Commands on many jobs: the same as one by one, in chunks that can be repeated and continued."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.retry import Retry
from sloppyjobs.domain.states import Status
from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.conformance import admin_scenes as scene
from sloppyjobs.testing.conformance.admin_commands import COMMANDS, LEADS


def _without_identity(record: Any) -> dict[str, Any]:
    hidden = ("id", "job_id", "created_at")
    return {name: getattr(record, name) for name in record.__struct_fields__ if name not in hidden}


def _story(jobs: Jobs, id: str) -> tuple[Any, ...]:
    """Everything that can be seen of a job, but who it is."""
    events = [_without_identity(one) for one in jobs.admin.events(id)]
    attempts = [_without_identity(one) for one in jobs.admin.attempts(id)]
    return _without_identity(jobs.get(id)), events, attempts


@pytest.mark.parametrize(
    ("command", "status"), [(command, Status(source)) for command in COMMANDS for source in LEADS[command]]
)
def test_a_bulk_command_does_to_each_job_what_the_single_command_does(jobs: Jobs, command: str, status: Status) -> None:
    alone, among_many = scene.in_status(jobs, status), scene.in_status(jobs, status)
    getattr(jobs.admin, command)(alone.id, actor="ada", reason="because")
    result = jobs.admin.bulk(command, {"ids": [among_many.id]}, actor="ada", reason="because")
    assert (result.done, result.skipped) == (1, {})
    assert _story(jobs, among_many.id) == _story(jobs, alone.id)


def test_each_of_many_dead_jobs_gets_the_budget_of_its_own_policy(jobs: Jobs) -> None:
    budgets = {}
    for budget in (2, 5, 9):
        job = scene.queued(jobs, retry=Retry(max_attempts=budget, backoff="none"))
        for _ in range(budget):
            [claim] = jobs.claim("w")
            assert jobs.fail(claim, "no", retry_after=0)
            jobs.storage.sweep()
        assert jobs.get(job.id).status == "dead"
        budgets[job.id] = 2 * budget
    assert jobs.admin.bulk("retry", {"status": "dead"}).done == 3
    assert {id: jobs.get(id).max_attempts for id in budgets} == budgets


def test_paused_jobs_go_back_to_where_each_of_them_was(jobs: Jobs) -> None:
    made = {scene.queued(jobs).id: "queued", scene.queued(jobs, delay=60).id: "scheduled"}
    made[scene.failed_once(jobs).id] = "retrying"
    assert jobs.admin.bulk("pause", {"ids": list(made)}).done == 3
    assert {jobs.get(id).status for id in made} == {"paused"}
    assert jobs.admin.bulk("resume", {"status": "paused"}).done == 3
    assert {id: jobs.get(id).status for id in made} == made


def test_a_bulk_command_can_be_done_in_parts_with_one_tally(jobs: Jobs) -> None:
    scene.declared(jobs)
    jobs.enqueue_many([(scene.NAME, {})] * 7)
    parts = []
    cursor = None
    while True:
        parts.append(jobs.admin.bulk("cancel", {"queue": "default"}, at_once=3, cursor=cursor))
        cursor = parts[-1].next_cursor
        if cursor is None:
            break
    assert [(part.matched, part.done, part.more) for part in parts] == [(3, 3, True), (6, 6, True), (7, 7, False)]
    assert not jobs.admin.list_jobs(status="queued")
    assert [entry.detail["done"] for entry in jobs.admin.audit(target="bulk cancel")] == [1, 3, 3]


def test_the_limit_holds_for_all_parts_together(jobs: Jobs) -> None:
    scene.declared(jobs)
    jobs.enqueue_many([(scene.NAME, {})] * 7)
    first = jobs.admin.bulk("cancel", {"queue": "default"}, 5, at_once=3)
    last = jobs.admin.bulk("cancel", {"queue": "default"}, 5, at_once=3, cursor=first.next_cursor)
    assert (last.done, last.more, last.next_cursor) == (5, True, None)
    assert len(jobs.admin.list_jobs(status="queued")) == 2


def test_a_part_that_is_repeated_does_nothing_twice(jobs: Jobs) -> None:
    ids = [scene.dead(jobs).id for _ in range(4)]
    first = jobs.admin.bulk("retry", {"ids": ids}, at_once=2)
    jobs.admin.bulk("retry", {"ids": ids}, at_once=2, cursor=first.next_cursor)
    # Every one of them dies again, so that the filter would find them again.
    while claims := jobs.claim("w", limit=4):
        for claim in claims:
            assert jobs.fail(claim, "no", retry_after=0)
        jobs.storage.sweep()
    assert {jobs.get(id).status for id in ids} == {"dead"}
    events = {id: len(jobs.admin.events(id)) for id in ids}
    again = jobs.admin.bulk("retry", {"ids": ids}, at_once=2, cursor=first.next_cursor)
    assert (again.done, again.skipped) == (2, {"became dead meanwhile": 2})
    assert {id: len(jobs.admin.events(id)) for id in ids} == events


def test_jobs_that_come_while_a_bulk_command_goes_on_are_left_alone(jobs: Jobs) -> None:
    scene.declared(jobs)
    jobs.enqueue_many([(scene.NAME, {})] * 4)
    first = jobs.admin.bulk("cancel", {"queue": "default"}, at_once=2)
    late = scene.queued(jobs)
    last = jobs.admin.bulk("cancel", {"queue": "default"}, cursor=first.next_cursor)
    assert (last.done, last.skipped) == (4, {"was created meanwhile": 1})
    assert jobs.get(late.id).status == "queued"


def test_ids_that_nobody_has_are_counted_once_at_the_end(jobs: Jobs) -> None:
    ids = [scene.queued(jobs).id, "job_nobody", scene.queued(jobs).id]
    first = jobs.admin.bulk("cancel", {"ids": ids}, at_once=1)
    assert (first.done, first.skipped) == (1, {})
    last = jobs.admin.bulk("cancel", {"ids": ids}, at_once=1, cursor=first.next_cursor)
    assert (last.done, last.skipped) == (2, {"unknown, or outside the filter": 1})


@pytest.mark.parametrize(
    "spoil",
    [
        lambda cursor: cursor[:-4],
        lambda cursor: cursor + "x" * 5_000,
        lambda cursor: "",
        lambda cursor: "é",
        lambda cursor: 5,
    ],
)
def test_a_damaged_cursor_is_refused(jobs: Jobs, spoil: Callable[[str], Any]) -> None:
    cursor = _begun(jobs)
    with pytest.raises(errors.InvalidOption, match=r"^cursor="):
        jobs.admin.bulk("cancel", {"queue": "default"}, cursor=spoil(cursor))
    assert len(jobs.admin.list_jobs(status="queued")) == 1


def test_the_cursor_of_another_command_is_refused(jobs: Jobs) -> None:
    cursor = _begun(jobs)
    for other in (("pause", {"queue": "default"}), ("cancel", {"name": scene.NAME})):
        with pytest.raises(errors.InvalidOption, match="belongs to another"):
            jobs.admin.bulk(*other, cursor=cursor)
    with pytest.raises(errors.InvalidOption, match="dry run"):
        jobs.admin.bulk("cancel", {"queue": "default"}, dry_run=True, cursor=cursor)
    with pytest.raises(errors.InvalidOption, match=r"^at_once="):
        jobs.admin.bulk("cancel", {"queue": "default"}, at_once=0)


def _begun(jobs: Jobs) -> str:
    for _ in range(2):
        scene.queued(jobs)
    cursor = jobs.admin.bulk("cancel", {"queue": "default"}, at_once=1).next_cursor
    assert cursor is not None
    return cursor
