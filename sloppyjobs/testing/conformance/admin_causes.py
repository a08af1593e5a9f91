"""Causes of death: what is remembered of them over retries, canaries, and the rest at a rate."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.causes import cause_id
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.retry import NO_RETRY
from sloppyjobs.domain.states import Status
from sloppyjobs.jobs import Jobs
from sloppyjobs.retention import purge
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance import admin_scenes as scene
from sloppyjobs.views import RetryRun

CAUSE = cause_id(scene.NAME, "ValueError", None)


def _dead(jobs: Jobs, clock: FakeClock, number: int, **options: Any) -> list[Job]:
    """Dead jobs of one cause, a second apart."""
    if jobs.definitions.get(scene.NAME) is None:
        jobs.declare(scene.NAME, retry=NO_RETRY)
    made = []
    for _ in range(number):
        made.append(scene.dead(jobs, ValueError("no"), **options))
        clock.advance(1)
    return made


def _settle(jobs: Jobs, *, well: bool, limit: int = 500) -> int:
    """Run what is queued, and let it succeed or die of the same cause."""
    claims = jobs.claim("worker_9", queues=("*",), limit=limit)
    for claim in claims:
        if well:
            jobs.complete(claim, None)
        else:
            jobs.fail(claim, ValueError("no"))
    return len(claims)


def _numbers(run: RetryRun) -> tuple[int, int, int, int]:
    return run.succeeded, run.died, run.unfinished, run.other


def _last_rest(jobs: Jobs) -> RetryRun:
    found = jobs.admin.get_cause(CAUSE).rest
    assert found is not None
    return found


def _count(jobs: Jobs, status: str) -> int:
    return len(jobs.admin.list_jobs(status, page_size=500))


def test_a_group_knows_the_id_of_its_cause(jobs: Jobs, clock: FakeClock) -> None:
    _dead(jobs, clock, 2)
    [group] = jobs.admin.dead_groups()
    assert group.cause == CAUSE == cause_id(group.name, group.error_type, group.error_frame)
    assert jobs.admin.get_cause(CAUSE).dead.value == 2


def test_first_and_last_seen_are_kept_over_retries_and_deletes(jobs: Jobs, clock: FakeClock) -> None:
    first, second, third = _dead(jobs, clock, 3)
    begun = first.finished_at
    clock.advance(7_200)
    jobs.admin.retry(first.id)
    jobs.admin.bulk("retry", {"ids": [second.id]})
    jobs.admin.delete(third.id)
    found = jobs.admin.get_cause(CAUSE)
    assert (found.dead.value, found.deaths, found.first_seen, found.last_seen) == (0, 3, begun, third.finished_at)
    _settle(jobs, well=False)
    found = jobs.admin.get_cause(CAUSE)
    assert (found.dead.value, found.deaths, found.first_seen, found.last_seen) == (2, 5, begun, clock.now())
    [group] = jobs.admin.dead_groups()
    assert (group.first_seen, group.last_seen, group.deaths) == (begun, clock.now(), 5)


def test_the_trend_counts_every_death_in_its_hour_once(jobs: Jobs, clock: FakeClock) -> None:
    made = _dead(jobs, clock, 3)
    clock.advance(7_200)
    _dead(jobs, clock, 2)
    before = jobs.admin.get_cause(CAUSE).trend
    jobs.admin.bulk("retry", {"ids": [job.id for job in made]})
    after = jobs.admin.get_cause(CAUSE).trend
    assert before == after
    assert len(after) == 48
    assert sum(one.deaths for one in after) == 5
    assert max(one.deaths for one in after) == 3


def test_a_purge_forgets_old_deaths_and_runs(jobs: Jobs, clock: FakeClock) -> None:
    _dead(jobs, clock, 2)
    jobs.admin.retry_canary(CAUSE, 2)
    _settle(jobs, well=True)
    clock.advance(timedelta(days=89).total_seconds())
    purge(jobs.storage, older_than=None)
    assert jobs.admin.get_cause(CAUSE).deaths == 2
    clock.advance(timedelta(days=2).total_seconds())
    purge(jobs.storage, older_than=None)
    with pytest.raises(errors.UnknownCause):
        jobs.admin.get_cause(CAUSE)
    sizes = scene.table_sizes(jobs)
    assert {sizes[name] for name in sizes if "deaths" in name or "retry" in name} == {0}


@pytest.mark.parametrize("cause", ["", "0" * 20, "x" * 20, "../../etc", CAUSE.upper(), CAUSE[:-1]])
def test_an_unknown_cause_is_refused(jobs: Jobs, clock: FakeClock, cause: str) -> None:
    _dead(jobs, clock, 1)
    with pytest.raises(errors.UnknownCause):
        jobs.admin.get_cause(cause)
    with pytest.raises(errors.UnknownCause):
        jobs.admin.retry_canary(cause, 1)


def test_a_canary_retries_the_oldest_and_remembers_them(jobs: Jobs, clock: FakeClock) -> None:
    made = _dead(jobs, clock, 5)
    run = jobs.admin.retry_canary(CAUSE, 2, actor="ada", reason="fixed?")
    assert (run.kind, run.retried, run.actor, _numbers(run)) == ("canary", 2, "ada", (0, 0, 2, 0))
    assert {job.id for job in jobs.admin.list_jobs("queued")} == {job.id for job in made[:2]}
    assert jobs.admin.get_cause(CAUSE).dead.value == 3
    [entry] = jobs.admin.audit(CAUSE)
    assert (entry.action, entry.actor, entry.reason, entry.detail["jobs"]) == ("retry_canary", "ada", "fixed?", 2)


@pytest.mark.parametrize("count", [0, -1, 1_001, True, "5", 2.0, None])
def test_a_canary_of_an_odd_number_does_nothing(jobs: Jobs, clock: FakeClock, count: Any) -> None:
    _dead(jobs, clock, 2)
    with pytest.raises(errors.InvalidOption, match="count"):
        jobs.admin.retry_canary(CAUSE, count)
    assert _count(jobs, "dead") == 2


def test_the_outcome_of_a_canary_follows_its_jobs(jobs: Jobs, clock: FakeClock) -> None:
    made = _dead(jobs, clock, 6)
    jobs.admin.retry_canary(CAUSE, 5)
    _settle(jobs, well=True, limit=2)
    _settle(jobs, well=False, limit=1)
    jobs.admin.cancel(next(job.id for job in jobs.admin.list_jobs("queued")))
    found = jobs.admin.get_cause(CAUSE)
    assert found.canary is not None
    assert _numbers(found.canary) == (2, 1, 1, 1)
    assert found.canary.outcome == "running"
    _settle(jobs, well=True)
    [group] = jobs.admin.dead_groups()
    assert group.canary is not None
    assert (_numbers(group.canary), group.canary.outcome) == ((3, 1, 0, 1), "died")
    assert group.canary.words == "1 died again, 3 succeeded, 1 cancelled or deleted"
    listed = {one.job.id: one.canary for one in jobs.admin.get_cause(CAUSE).jobs}
    assert listed[made[5].id] is False
    assert sorted(listed.values()) == [False, True]


def test_a_canary_that_dies_of_something_else_is_told_apart(jobs: Jobs, clock: FakeClock) -> None:
    _dead(jobs, clock, 2)
    jobs.admin.retry_canary(CAUSE, 1)
    [claim] = jobs.claim("worker_9")
    jobs.fail(claim, KeyError("other"))
    canary = jobs.admin.get_cause(CAUSE).canary
    assert canary is not None
    assert (canary.died, canary.elsewhere) == (1, 1)


def test_the_rest_is_retried_at_its_rate(jobs: Jobs, clock: FakeClock) -> None:
    _dead(jobs, clock, 12)
    run = jobs.admin.retry_rest(CAUSE, 60, actor="ada")
    assert (run.state, run.wanted, run.retried, _count(jobs, "queued")) == ("running", 12, 0, 0)
    assert jobs.admin.advance_retry_runs() == 1
    assert jobs.admin.advance_retry_runs() == 0, "the next is due in a second"
    clock.advance(3)
    assert jobs.admin.advance_retry_runs() == 3
    _settle(jobs, well=True)
    clock.advance(3_600)
    assert jobs.admin.advance_retry_runs() == 8, "what is left; an hour is not made up for beyond ten seconds"
    _settle(jobs, well=True)
    clock.advance(60)
    assert jobs.admin.advance_retry_runs() == 0
    run = _last_rest(jobs)
    assert (run.state, run.retried, _numbers(run)) == ("finished", 12, (12, 0, 0, 0))


def test_a_run_that_was_not_advanced_for_long_catches_up_with_ten_seconds(jobs: Jobs, clock: FakeClock) -> None:
    _dead(jobs, clock, 40)
    jobs.admin.retry_rest(CAUSE, 60)
    clock.advance(3_600)
    assert jobs.admin.advance_retry_runs() == 10
    clock.advance(1)
    _settle(jobs, well=True)
    assert jobs.admin.advance_retry_runs() == 1


def test_a_run_waits_for_its_first_results(jobs: Jobs, clock: FakeClock) -> None:
    _dead(jobs, clock, 30)
    jobs.admin.retry_rest(CAUSE, 6_000)
    done = []
    for _ in range(5):
        clock.advance(10)
        done.append(jobs.admin.advance_retry_runs())
    assert done == [10, 0, 0, 0, 0]
    _settle(jobs, well=True)
    clock.advance(10)
    assert jobs.admin.advance_retry_runs() == 20


def test_three_deaths_in_a_row_stop_a_run(jobs: Jobs, clock: FakeClock) -> None:
    _dead(jobs, clock, 10)
    jobs.admin.retry_rest(CAUSE, 60, actor="ada")
    for _ in range(6):
        jobs.admin.advance_retry_runs()
        _settle(jobs, well=False)
        clock.advance(1)
    run = _last_rest(jobs)
    assert (run.state, run.retried, run.died, run.ended_because) == ("stopped", 3, 3, "3 in a row died again")
    assert _count(jobs, "dead") == 10
    clock.advance(3_600)
    assert jobs.admin.advance_retry_runs() == 0
    [stopped, begun] = jobs.admin.audit(CAUSE)
    assert (begun.action, begun.actor) == ("retry_rest", "ada")
    assert (stopped.action, stopped.actor, stopped.detail["retried"]) == ("stop_retry", "sloppyjobs", 3)


def test_a_success_between_deaths_lets_a_run_continue(jobs: Jobs, clock: FakeClock) -> None:
    _dead(jobs, clock, 8)
    jobs.admin.retry_rest(CAUSE, 60)
    for place in range(9):
        jobs.admin.advance_retry_runs()
        _settle(jobs, well=place % 3 == 2)
        clock.advance(1)
    run = _last_rest(jobs)
    assert (run.state, run.retried) == ("finished", 8)


def test_what_dies_again_is_not_retried_again_by_the_same_run(jobs: Jobs, clock: FakeClock) -> None:
    made = _dead(jobs, clock, 4)
    jobs.admin.retry_rest(CAUSE, 60)
    clock.advance(1)
    _dead(jobs, clock, 1)
    for place in range(8):
        jobs.admin.advance_retry_runs()
        _settle(jobs, well=place % 2 == 1, limit=1)
        clock.advance(1)
    run = _last_rest(jobs)
    assert (run.state, run.retried, run.died) == ("finished", 4, 2)
    assert [jobs.get(job.id).attempt_count for job in made] == [2, 2, 2, 2]
    assert _count(jobs, "dead") == 3, "one died after the run began"


def test_a_run_is_stopped_by_hand(jobs: Jobs, clock: FakeClock) -> None:
    _dead(jobs, clock, 4)
    run = jobs.admin.retry_rest(CAUSE, 60)
    jobs.admin.advance_retry_runs()
    stopped = jobs.admin.stop_retry_run(run.id, actor="ada")
    assert (stopped.state, stopped.retried, stopped.ended_because) == ("stopped", 1, "stopped by ada")
    clock.advance(60)
    assert jobs.admin.advance_retry_runs() == 0
    assert jobs.admin.stop_retry_run(run.id, actor="bob") == stopped
    assert [entry.action for entry in jobs.admin.audit(CAUSE)] == ["stop_retry", "retry_rest"]
    with pytest.raises(errors.UnknownCause):
        jobs.admin.stop_retry_run("retry_0")


def test_one_cause_is_retried_by_one_run_at_a_time(jobs: Jobs, clock: FakeClock) -> None:
    _dead(jobs, clock, 4)
    jobs.admin.retry_rest(CAUSE, 60)
    with pytest.raises(errors.InvalidTransition, match="running already"):
        jobs.admin.retry_rest(CAUSE, 60)


@pytest.mark.parametrize("rate", [0, 6_001, 1.5, "10", None])
def test_an_odd_rate_is_refused(jobs: Jobs, clock: FakeClock, rate: Any) -> None:
    _dead(jobs, clock, 1)
    with pytest.raises(errors.InvalidOption, match="rate"):
        jobs.admin.retry_rest(CAUSE, rate)


def test_a_cause_without_dead_jobs_cannot_be_retried(jobs: Jobs, clock: FakeClock) -> None:
    _dead(jobs, clock, 1)
    jobs.admin.retry_canary(CAUSE, 1)
    for retry in (jobs.admin.retry_canary, jobs.admin.retry_rest):
        with pytest.raises(errors.InvalidTransition, match="No job of this cause is dead"):
            retry(CAUSE, 1)


def test_a_step_that_fails_has_done_nothing(jobs: Jobs, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    _dead(jobs, clock, 3)
    jobs.admin.retry_rest(CAUSE, 60)

    def crash(*_: Any) -> None:
        raise RuntimeError("the process ends here")

    with monkeypatch.context() as patch:
        patch.setattr(jobs.storage.retry_runs, "_write_members", crash)
        with pytest.raises(RuntimeError):
            jobs.admin.advance_retry_runs()
    assert (_count(jobs, "dead"), _last_rest(jobs).retried) == (3, 0)
    assert jobs.admin.get_cause(CAUSE).deaths == 3
    assert jobs.admin.advance_retry_runs() == 1


def test_a_worker_advances_the_runs_in_its_passes(jobs: Jobs, clock: FakeClock) -> None:
    ran: list[str] = []
    jobs.define(scene.NAME, lambda ctx, payload: ran.append(ctx.job_id))
    made = _dead(jobs, clock, 3)
    jobs.admin.retry_rest(CAUSE, 60)
    worker = jobs.create_worker(recurring=False)
    for _ in range(4):
        worker.run_once()
        clock.advance(1)
    assert ran == [job.id for job in made]
    assert _last_rest(jobs).state == "finished"


def test_who_sees_some_queues_sees_and_retries_those_only(jobs: Jobs, clock: FakeClock) -> None:
    _dead(jobs, clock, 2, queue="mine")
    _dead(jobs, clock, 3, queue="theirs")
    seen = jobs.admin.get_cause(CAUSE, scope=["mine"])
    assert (seen.dead.value, seen.deaths, seen.queues) == (2, 2, (("mine", 2),))
    assert {one.job.queue for one in seen.jobs} == {"mine"}
    jobs.admin.retry_canary(CAUSE, 5)
    _settle(jobs, well=False)
    assert jobs.admin.get_cause(CAUSE, scope=["mine"]).canary is None, "a run over all queues is not theirs to see"
    run = jobs.admin.retry_canary(CAUSE, 5, scope=["mine"])
    assert run.retried == 2
    assert jobs.admin.get_cause(CAUSE, scope=["mine"]).canary == run
    with pytest.raises(errors.UnknownCause):
        jobs.admin.get_cause(CAUSE, scope=["elsewhere"])
    rest = jobs.admin.retry_rest(CAUSE, 60, scope=["theirs"])
    with pytest.raises(errors.UnknownCause):
        jobs.admin.stop_retry_run(rest.id, scope=["mine"])
    clock.advance(10)
    assert jobs.admin.advance_retry_runs() == 3


def test_a_damaged_row_is_retried_all_the_same(jobs: Jobs, clock: FakeClock) -> None:
    [job] = _dead(jobs, clock, 1)
    jobs.storage.inspection.set_job(job.id, finished_at=None)
    assert jobs.admin.retry(job.id).status is Status.QUEUED
