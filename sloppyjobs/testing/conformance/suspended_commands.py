"""Sleeping jobs and jobs that wait for a signal: timeouts, commands, upkeep."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.retry import NO_RETRY
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance import suspending as scene
from sloppyjobs.testing.conformance.records import ends
from sloppyjobs.testing.conformance.stepping import Calls, names, run, stepped

# Timeouts


def test_a_wait_that_times_out_raises_in_the_handler(jobs: Jobs, clock: FakeClock, calls: Calls) -> None:
    def handler(ctx: Any, _payload: Any) -> str:
        try:
            ctx.wait_for("approved", timeout=100)
        except errors.SignalTimeout:
            ctx.step("refuse", calls, "refuse")
        if ctx.attempt == 2:
            raise ValueError("once more")
        return "refused"

    job = stepped(jobs, handler)
    run(jobs)
    clock.advance(100)
    run(jobs)
    assert (jobs.get(job.id).result, calls.made) == ("refused", ["refuse"]), "also in the attempt after that"
    assert names(jobs, job) == [("signal", "approved", "timed_out"), ("step", "refuse", "done")]


def test_a_timeout_that_is_not_caught_is_not_retried_until_an_operator_does(jobs: Jobs, clock: FakeClock) -> None:
    job = stepped(jobs, scene.waits)
    run(jobs)
    clock.advance(100)
    run(jobs)
    dead = jobs.get(job.id)
    assert (dead.status, dead.error_code) == ("dead", "SLOPPY_E_JOBS_SIGNAL_TIMEOUT")
    with pytest.raises(errors.InvalidTransition):
        jobs.signal(job.id, "late")
    assert not jobs.signal(job.id, "approved"), "its time is over"
    jobs.admin.retry(job.id)
    run(jobs)
    assert scene.status(jobs, job) == ("waiting", "signal")
    assert jobs.signal(job.id, "approved", "at last")
    run(jobs)
    assert jobs.get(job.id).result == "at last"


# Commands


def test_a_sleeping_job_can_be_cancelled(jobs: Jobs, clock: FakeClock) -> None:
    job = stepped(jobs, scene.sleeps)
    run(jobs)
    jobs.admin.cancel(job.id)
    clock.advance(60)
    assert (run(jobs), jobs.get(job.id).status) == (0, "cancelled")
    assert jobs.storage.sweep().next_in is None


@pytest.mark.parametrize("resumed", ["before", "after"])
def test_a_sleeping_job_can_be_paused(jobs: Jobs, clock: FakeClock, resumed: str) -> None:
    job = stepped(jobs, scene.sleeps)
    run(jobs)
    jobs.admin.pause(job.id)
    clock.advance(30 if resumed == "before" else 90)
    assert (run(jobs), scene.status(jobs, job)) == (0, ("paused", "sleep"))
    jobs.admin.resume(job.id)
    assert run(jobs) == (0 if resumed == "before" else 1)
    clock.advance(30)
    run(jobs)
    assert jobs.get(job.id).status == "succeeded"


def test_a_paused_job_gets_its_signal_when_it_is_resumed(jobs: Jobs) -> None:
    job = stepped(jobs, scene.waits)
    run(jobs)
    jobs.admin.pause(job.id)
    assert jobs.signal(job.id, "approved", 1)
    assert (run(jobs), jobs.get(job.id).status) == (0, "paused")
    jobs.admin.resume(job.id)
    run(jobs)
    assert jobs.get(job.id).result == 1


def test_to_run_a_sleeping_job_now_ends_its_sleep(jobs: Jobs) -> None:
    job = stepped(jobs, scene.sleeps)
    run(jobs)
    assert jobs.admin.get_job(job.id).actions == ("run_now", "pause", "cancel")
    jobs.admin.run_now(job.id)
    run(jobs)
    assert jobs.get(job.id).status == "succeeded"


def test_a_job_that_waits_for_a_signal_cannot_be_run_without_it(jobs: Jobs) -> None:
    job = stepped(jobs, scene.waits)
    run(jobs)
    assert "run_now" not in jobs.admin.get_job(job.id).actions
    with pytest.raises(errors.InvalidTransition, match="run_now"):
        jobs.admin.run_now(job.id)


def test_a_suspended_job_can_be_replaced(jobs: Jobs) -> None:
    job = stepped(jobs, scene.waits)
    run(jobs)
    new = jobs.replace(job.id, {"order": 8})
    assert (jobs.get(job.id).status, names(jobs, new)) == ("cancelled", [])


def test_a_handler_that_catches_everything_is_suspended_all_the_same(jobs: Jobs, clock: FakeClock) -> None:
    def handler(ctx: Any, _payload: Any) -> Any:
        try:
            ctx.sleep("cool-down", 60)
        except BaseException as error:
            if ctx.metadata["how"] == "raises":
                raise ValueError("hidden") from error
            return "not yet"
        return "slept"

    jobs.define("work", handler, retry=NO_RETRY)
    made = [jobs.enqueue("work", metadata={"how": how}) for how in ("returns", "raises")]
    run(jobs)
    assert [scene.status(jobs, job) for job in made] == [("waiting", "sleep")] * 2
    assert all("Suspension" in jobs.admin.logs(job.id).items[0].message for job in made)
    clock.advance(60)
    run(jobs)
    assert [jobs.get(job.id).result for job in made] == ["slept"] * 2


def test_several_waits_at_once_wake_one_by_one(jobs: Jobs) -> None:
    async def handler(ctx: Any, _payload: Any) -> list[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.wait_for(name)) for name in ("a", "b")]
        return [task.result() for task in tasks]

    job = stepped(jobs, handler, retry=NO_RETRY)
    run(jobs)
    for name in ("b", "a"):
        assert scene.status(jobs, job) == ("waiting", "signal")
        assert jobs.signal(job.id, name, name)
        run(jobs)
    assert jobs.get(job.id).result == ["a", "b"]


# Upkeep


def test_what_is_suspended_for_nothing_is_found_by_the_cleanup(jobs: Jobs) -> None:
    job = stepped(jobs, scene.waits)
    run(jobs)
    assert jobs.storage.cleanup.release_waiting(100) == 0
    jobs.storage.inspection.set_step(job.id, "approved", state="done")
    assert "doctor --repair" in jobs.admin.explain(job.id).verdict
    assert jobs.storage.cleanup.release_waiting(100) == 1
    assert jobs.get(job.id).status == "queued"


def test_steps_go_with_their_job_and_the_archive_keeps_what_they_were(
    jobs: Jobs, clock: FakeClock, calls: Calls
) -> None:
    job = stepped(jobs, lambda ctx, payload: ctx.step("charge", calls, "charge", "canary"))
    run(jobs)
    jobs.admin.delete(job.id)
    clock.advance(timedelta(days=400))
    assert jobs.admin.purge(archive=True).jobs == 1
    assert jobs.storage.steps.known(job.id) == []
    [kept] = jobs.storage.inspection.archive()
    assert '"name":"charge"' in kept.history
    assert '"canary"' not in kept.history.partition('"steps"')[2]


def test_why_a_suspended_job_does_not_run(jobs: Jobs, clock: FakeClock) -> None:
    asleep = stepped(jobs, scene.sleeps)
    jobs.define("wait", scene.waits)
    waits = jobs.enqueue("wait")
    run(jobs)
    clock.advance(20)
    told = jobs.admin.explain(asleep.id)
    assert told.verdict.startswith("It sleeps (cool-down) until")
    assert (told.reasons[0].code, told.reasons[0].until) == ("asleep", clock.now() + timedelta(seconds=40))
    told = jobs.admin.explain(waits.id)
    assert "waiting for the signal 'approved' for 20 s" in told.verdict
    assert [reason.code for reason in told.reasons] == ["signal", "signal_timeout", "waiting", "attempts"]


def test_a_signal_of_an_operator_is_audited(jobs: Jobs) -> None:
    job = stepped(jobs, scene.waits)
    run(jobs)
    assert jobs.admin.signal(job.id, "approved", {"token": "canary"}, actor="ada", reason="by phone")
    assert not jobs.admin.signal(job.id, "approved", {}, actor="bob")
    [entry] = jobs.admin.audit(job.id)
    assert (entry.action, entry.actor, entry.reason) == ("signal", "ada", "by phone")
    assert entry.detail == {"signal": "approved"}
    assert jobs.admin.events(job.id).items[-1].actor == "ada"
    assert "canary" not in repr(list(jobs.admin.steps(job.id)))
    assert ends(jobs, job.id) == [(1, "suspended")]
