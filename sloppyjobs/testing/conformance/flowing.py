"""Workflows: named graphs of jobs that are written whole, stand as their jobs say, and are commanded as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.dependencies import After, Result
from sloppyjobs.domain.model import Claim
from sloppyjobs.domain.retry import NO_RETRY
from sloppyjobs.enqueue.definitions import Cancel
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import count, transitions
from sloppyjobs.workflow.flows import Flow


@pytest.fixture
def flows(jobs: Jobs) -> Jobs:
    """Jobs with a name that everybody uses here."""
    jobs.declare("work", retry=NO_RETRY)
    return jobs


def diamond(jobs: Jobs, **options: Any) -> Flow:
    """One job, two that wait for it, and one that waits for both."""
    with jobs.workflow("diamond", **options) as flow:
        top = flow.add("work", 1)
        sides = [flow.add("work", side, after=top) for side in (2, 3)]
        flow.add("work", 4, after=sides)
    return flow


def _run(jobs: Jobs, settle: Callable[[Claim], bool], most: int = 100) -> int:
    """Settle what is due now; how many it was."""
    claims = jobs.claim("worker-1", queues=("*",), limit=most)
    assert all(map(settle, claims))
    return len(claims)


def succeed(jobs: Jobs, most: int = 100) -> int:
    return _run(jobs, jobs.complete, most)


def die(jobs: Jobs, most: int = 100) -> int:
    return _run(jobs, lambda claim: jobs.fail(claim, ValueError("no")), most)


def statuses(jobs: Jobs, flow: Flow) -> list[str]:
    return [jobs.get(job.id).status.value for job in flow.jobs]


def test_a_workflow_is_written_whole_at_the_end_of_its_block(flows: Jobs) -> None:
    with flows.workflow("nightly", correlation_id="c-1", metadata={"region": "eu"}) as flow:
        extract = flow.add("work", 1)
        flow.add("work", 2, after=extract, correlation_id="c-2", priority=3)
        assert (count(flows), flow.jobs) == (0, ())
    assert [job.status for job in flow.jobs] == ["queued", "waiting"]
    assert [job.workflow_id for job in flow.jobs] == [flow.id, flow.id]
    assert [job.correlation_id for job in flow.jobs] == ["c-1", "c-2"]
    assert flow.jobs[0].id == extract.id
    found = flows.admin.get_workflow(flow.id)
    assert (found.id, found.name, found.status, found.jobs, found.edges) == (flow.id, "nightly", "running", 2, 1)
    assert (found.correlation_id, found.metadata) == ("c-1", {"region": "eu"})
    assert (found.counts, found.percent, found.finished_at) == ({"queued": 1, "waiting": 1}, 0.0, None)


def test_a_workflow_runs_in_the_order_of_its_edges(flows: Jobs, clock: FakeClock) -> None:
    flow = diamond(flows)
    assert [succeed(flows) for _ in range(3)] == [1, 2, 1]
    clock.advance(5)
    found = flows.admin.get_workflow(flow.id)
    assert (found.status, found.counts, found.percent, found.succeeded) == ("succeeded", {"succeeded": 4}, 100.0, 4)
    assert found.finished_at == flows.get(flow.jobs[-1].id).finished_at
    assert found.actions == ()


def test_an_exception_in_the_block_writes_nothing(flows: Jobs) -> None:
    with pytest.raises(ValueError, match="no luck"), flows.workflow("nightly") as flow:
        flow.add("work")
        raise ValueError("no luck")
    assert count(flows) == 0
    with pytest.raises(errors.UnknownWorkflow):
        flows.admin.get_workflow(flow.id)


def test_conditions_of_edges_and_jobs_that_are_there_already(flows: Jobs) -> None:
    before = flows.enqueue("work", priority=9)
    with flows.workflow("mixed") as flow:
        first = flow.add("work", after=before.id)
        flow.add("work", after=first, when=Result("/rows", ">", 0))
        flow.add("work", after=[first, before], on="failure", any=True)
        flow.add("work", after=[After(first, on="always"), before])
    assert statuses(flows, flow) == ["waiting"] * 4
    assert flows.admin.get_workflow(flow.id).status == "waiting"
    succeed(flows, 1)
    assert statuses(flows, flow) == ["queued", "waiting", "waiting", "waiting"]
    [claim] = flows.claim("worker-1")
    assert flows.complete(claim, {"rows": 3})
    assert statuses(flows, flow) == ["succeeded", "queued", "cancelled", "queued"]
    succeed(flows)
    found = flows.admin.get_workflow(flow.id)
    assert (found.status, found.counts) == ("succeeded", {"succeeded": 3, "cancelled": 1})


def test_a_parent_that_has_ended_already_is_seen(flows: Jobs) -> None:
    gone = flows.enqueue("work")
    flows.admin.cancel(gone.id)
    with flows.workflow("late") as flow:
        first = flow.add("work", after=gone)
        flow.add("work", after=first)
        alarm = flow.add("work", after=first, on="failure")
    assert statuses(flows, flow) == ["cancelled", "cancelled", "queued"]
    assert transitions(flows, alarm.id) == ["created:waiting", "unblocked:queued"]
    assert flows.admin.get_workflow(flow.id).status == "running"


@pytest.mark.parametrize("end", ["cancel", "delete"])
def test_a_workflow_that_needed_a_job_elsewhere_is_cancelled_with_it(flows: Jobs, end: str) -> None:
    elsewhere = flows.enqueue("work")
    with flows.workflow("late") as flow:
        first = flow.add("work", after=elsewhere)
        flow.add("work", after=first)
    getattr(flows.admin, end)(elsewhere.id)
    assert statuses(flows, flow) == ["cancelled", "cancelled"]
    assert flows.admin.get_workflow(flow.id).status == "cancelled"


def test_a_branch_that_a_job_elsewhere_did_not_ask_for_was_not_needed(flows: Jobs) -> None:
    elsewhere = flows.enqueue("work")
    with flows.workflow("late") as flow:
        flow.add("work", after=elsewhere)
        flow.add("work", after=elsewhere, on="failure")
        flow.add("work", after=elsewhere, when=Result("/rows", ">", 1))
    assert (succeed(flows), succeed(flows)) == (1, 1)
    assert statuses(flows, flow) == ["succeeded", "cancelled", "cancelled"]
    assert flows.admin.get_workflow(flow.id).status == "succeeded"


def test_a_dead_job_blocks_until_the_workflow_is_retried(flows: Jobs) -> None:
    flow = diamond(flows)
    succeed(flows)
    die(flows, 1)
    assert flows.admin.get_workflow(flow.id).status == "running"
    succeed(flows)
    found = flows.admin.get_workflow(flow.id)
    assert (found.status, found.actions) == ("blocked", ("cancel", "retry"))
    [blocker] = flows.admin.workflow_blockers(flow.id)
    assert (blocker.name, blocker.error_type, blocker.waiting) == ("work", "ValueError", 1)
    done = flows.admin.retry_workflow(flow.id, actor="ada", reason="mended")
    assert (done.action, done.matched, done.done, done.sample_ids) == ("retry_workflow", 1, 1, (blocker.job_id,))
    assert flows.admin.get_workflow(flow.id).status == "running"
    assert [succeed(flows), succeed(flows)] == [1, 1]
    assert flows.admin.get_workflow(flow.id).status == "succeeded"
    assert flows.admin.retry_workflow(flow.id).done == 0
    [entry] = flows.admin.audit(flow.id)
    assert (entry.action, entry.target_type, entry.actor, entry.detail["done"]) == (
        "retry_workflow",
        "workflow",
        "ada",
        1,
    )


def test_a_workflow_whose_last_job_died_has_failed_and_can_be_retried(flows: Jobs) -> None:
    with flows.workflow("short") as flow:
        flow.add("work")
    die(flows)
    found = flows.admin.get_workflow(flow.id)
    assert (found.status, found.actions, found.finished_at is not None) == ("failed", ("retry",), True)
    flows.admin.purge()
    assert flows.admin.retry_workflow(flow.id).done == 1
    succeed(flows)
    assert flows.admin.get_workflow(flow.id).status == "succeeded"


def test_cancelling_as_a_whole_starts_nothing_that_waits_for_a_failure(flows: Jobs) -> None:
    with flows.workflow("nightly") as flow:
        running = flow.add("work", priority=1)
        later = flow.add("work", delay=60)
        flow.add("work", after=running)
        flow.add("work", after=[running, later], on="failure", any=True)
        flow.add("work", after=[running, later], on="always")
    [claim] = flows.claim("worker-1")
    done = flows.admin.cancel_workflow(flow.id, actor="ada", reason="wrong plan")
    assert (done.matched, done.done, done.skipped) == (5, 5, {})
    assert set(statuses(flows, flow)) == {"cancelled"}
    assert not flows.complete(claim)
    found = flows.admin.get_workflow(flow.id)
    assert (found.status, found.cancelled_by, found.cancel_reason) == ("cancelled", "ada", "wrong plan")
    assert flows.admin.cancel_workflow(flow.id).done == 0
    assert len(flows.admin.audit(flow.id)) == 1


def test_a_cancelled_workflow_is_cancelled_whatever_was_dead_in_it(flows: Jobs) -> None:
    flow = diamond(flows)
    die(flows)
    flows.admin.cancel_workflow(flow.id)
    assert statuses(flows, flow) == ["dead", "cancelled", "cancelled", "cancelled"]
    assert flows.admin.get_workflow(flow.id).status == "cancelled"


def test_a_job_that_was_cancelled_alone_makes_its_workflow_cancelled(flows: Jobs) -> None:
    flow = diamond(flows)
    flows.admin.cancel(flow.jobs[0].id)
    found = flows.admin.get_workflow(flow.id)
    assert (found.status, found.counts, found.cancelled_at) == ("cancelled", {"cancelled": 4}, None)


def test_a_handler_that_cancels_its_job_cancels_what_needs_it(jobs: Jobs) -> None:
    jobs.define("check", lambda ctx, payload: Cancel("nothing to do"))
    jobs.declare("work")
    with jobs.workflow("nightly") as flow:
        flow.add("work", after=flow.add("check"))
    jobs.create_worker().run_once()
    assert statuses(jobs, flow) == ["cancelled", "cancelled"]
    assert jobs.admin.get_workflow(flow.id).status == "cancelled"


def test_what_waits_for_a_time_or_for_somebody_is_waiting(flows: Jobs) -> None:
    with flows.workflow("later") as flow:
        timed = flow.add("work", delay=60)
        flow.add("work", after=timed)
    assert flows.admin.get_workflow(flow.id).status == "waiting"
    flows.admin.pause(timed.id)
    assert flows.admin.get_workflow(flow.id).status == "waiting"
