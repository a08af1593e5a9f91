"""Workflows: named graphs of jobs that are written whole, stand as their jobs say, and are commanded as one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.dependencies import After, FlowJob, Result
from sloppyjobs.domain.model import Claim
from sloppyjobs.domain.retry import NO_RETRY
from sloppyjobs.domain.workflows import MOST_JOBS
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


def _succeed(jobs: Jobs, most: int = 100) -> int:
    return _run(jobs, jobs.complete, most)


def _die(jobs: Jobs, most: int = 100) -> int:
    return _run(jobs, lambda claim: jobs.fail(claim, ValueError("no")), most)


def _statuses(jobs: Jobs, flow: Flow) -> list[str]:
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
    assert [_succeed(flows) for _ in range(3)] == [1, 2, 1]
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
    assert _statuses(flows, flow) == ["waiting"] * 4
    assert flows.admin.get_workflow(flow.id).status == "waiting"
    _succeed(flows, 1)
    assert _statuses(flows, flow) == ["queued", "waiting", "waiting", "waiting"]
    [claim] = flows.claim("worker-1")
    assert flows.complete(claim, {"rows": 3})
    assert _statuses(flows, flow) == ["succeeded", "queued", "cancelled", "queued"]
    _succeed(flows)
    found = flows.admin.get_workflow(flow.id)
    assert (found.status, found.counts) == ("succeeded", {"succeeded": 3, "cancelled": 1})


def test_a_parent_that_has_ended_already_is_seen(flows: Jobs) -> None:
    gone = flows.enqueue("work")
    flows.admin.cancel(gone.id)
    with flows.workflow("late") as flow:
        first = flow.add("work", after=gone)
        flow.add("work", after=first)
        alarm = flow.add("work", after=first, on="failure")
    assert _statuses(flows, flow) == ["cancelled", "cancelled", "queued"]
    assert transitions(flows, alarm.id) == ["created:waiting", "unblocked:queued"]
    assert flows.admin.get_workflow(flow.id).status == "running"


def test_a_dead_job_blocks_until_the_workflow_is_retried(flows: Jobs) -> None:
    flow = diamond(flows)
    _succeed(flows)
    _die(flows, 1)
    assert flows.admin.get_workflow(flow.id).status == "running"
    _succeed(flows)
    found = flows.admin.get_workflow(flow.id)
    assert (found.status, found.actions) == ("blocked", ("cancel", "retry"))
    [blocker] = flows.admin.workflow_blockers(flow.id)
    assert (blocker.name, blocker.error_type, blocker.waiting) == ("work", "ValueError", 1)
    done = flows.admin.retry_workflow(flow.id, actor="ada", reason="mended")
    assert (done.action, done.matched, done.done, done.sample_ids) == ("retry_workflow", 1, 1, (blocker.job_id,))
    assert flows.admin.get_workflow(flow.id).status == "running"
    assert [_succeed(flows), _succeed(flows)] == [1, 1]
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
    _die(flows)
    found = flows.admin.get_workflow(flow.id)
    assert (found.status, found.actions, found.finished_at is not None) == ("failed", ("retry",), True)
    flows.admin.purge()
    assert flows.admin.retry_workflow(flow.id).done == 1
    _succeed(flows)
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
    assert set(_statuses(flows, flow)) == {"cancelled"}
    assert not flows.complete(claim)
    found = flows.admin.get_workflow(flow.id)
    assert (found.status, found.cancelled_by, found.cancel_reason) == ("cancelled", "ada", "wrong plan")
    assert flows.admin.cancel_workflow(flow.id).done == 0
    assert len(flows.admin.audit(flow.id)) == 1


def test_a_cancelled_workflow_is_cancelled_whatever_was_dead_in_it(flows: Jobs) -> None:
    flow = diamond(flows)
    _die(flows)
    flows.admin.cancel_workflow(flow.id)
    assert _statuses(flows, flow) == ["dead", "cancelled", "cancelled", "cancelled"]
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
    assert _statuses(jobs, flow) == ["cancelled", "cancelled"]
    assert jobs.admin.get_workflow(flow.id).status == "cancelled"


def test_what_waits_for_a_time_or_for_somebody_is_waiting(flows: Jobs) -> None:
    with flows.workflow("later") as flow:
        timed = flow.add("work", delay=60)
        flow.add("work", after=timed)
    assert flows.admin.get_workflow(flow.id).status == "waiting"
    flows.admin.pause(timed.id)
    assert flows.admin.get_workflow(flow.id).status == "waiting"


def test_how_it_ended_is_kept_when_its_jobs_are_gone_and_goes_with_the_last(flows: Jobs, clock: FakeClock) -> None:
    flow = diamond(flows)
    other = diamond(flows)
    while _succeed(flows):
        pass
    before = flows.admin.get_workflow(flow.id)
    flows.admin.purge()
    assert flows.admin.get_workflow(flow.id) == before
    flows.admin.delete(flow.jobs[0].id)
    assert flows.admin.get_workflow(flow.id) == before
    for job in (*flow.jobs[1:], *other.jobs[:3]):
        flows.admin.delete(job.id)
    clock.advance(timedelta(days=2))
    assert flows.admin.purge().jobs == 7
    flows.admin.purge()
    with pytest.raises(errors.UnknownWorkflow):
        flows.admin.get_workflow(flow.id)
    assert flows.admin.get_workflow(other.id).counts == {"succeeded": 4}


def test_a_dead_job_that_was_deleted_leaves_a_failed_workflow(flows: Jobs) -> None:
    with flows.workflow("short") as flow:
        flow.add("work", priority=1)
        flow.add("work")
    _die(flows, 1)
    _succeed(flows)
    flows.admin.delete(flow.jobs[0].id)
    flows.admin.purge()
    assert flows.admin.get_workflow(flow.id).status == "failed"


def test_workflows_are_listed_newest_first_by_what_is_asked(flows: Jobs, clock: FakeClock) -> None:
    made = {}
    for word in ("succeeded", "failed", "cancelled", "blocked", "waiting", "running"):
        clock.advance(60)
        made[word] = diamond(flows, correlation_id=word)
        match word:
            case "succeeded":
                while _succeed(flows):
                    pass
            case "failed":
                while flows.admin.get_workflow(made[word].id).counts.get("waiting"):
                    _succeed(flows)
                _die(flows)
            case "cancelled":
                flows.admin.cancel_workflow(made[word].id)
            case "blocked":
                _die(flows)
            case "waiting":
                flows.admin.pause(made[word].jobs[0].id)
    names = list(reversed(made))
    for _ in range(2):
        assert [flow.status for flow in flows.admin.list_workflows()] == names
        for word, flow in made.items():
            assert [found.id for found in flows.admin.list_workflows(word)] == [flow.id]
            assert [found.id for found in flows.admin.list_workflows(word, name="diamond")] == [flow.id]
            assert [found.id for found in flows.admin.list_workflows(correlation_id=word)] == [flow.id]
            assert not flows.admin.list_workflows(word, name="other")
        flows.admin.purge()
    both = flows.admin.list_workflows(["succeeded", "blocked"])
    assert [found.status for found in both] == ["blocked", "succeeded"]
    since = flows.admin.get_workflow(made["blocked"].id).started_at
    assert [one.status for one in flows.admin.list_workflows(created_from=since)] == names[:3]
    assert [one.status for one in flows.admin.list_workflows(created_to=since)] == names[3:]
    page = flows.admin.list_workflows(page_size=4)
    rest = flows.admin.list_workflows(page_size=4, cursor=page.next_cursor)
    assert [one.status for one in (*page, *rest)] == names
    assert flows.admin.list_workflows(page_size=4, cursor=rest.previous_cursor).items == page.items


def test_a_viewer_of_some_queues_sees_no_more_of_a_workflow(flows: Jobs) -> None:
    with flows.workflow("mixed") as flow:
        secret = flow.add("work", queue="vault")
        seen = flow.add("work", queue="open", after=secret)
    hidden = diamond(flows)
    assert [one.id for one in flows.admin.list_workflows(scope=("open",))] == [flow.id]
    with pytest.raises(errors.UnknownWorkflow):
        flows.admin.get_workflow(hidden.id, scope=("open",))
    assert [job.id for job in flows.admin.workflow_jobs(flow.id, scope=("open",))] == [seen.id]
    first, second = flows.admin.workflow_graph(flow.id, scope=("open",)).jobs
    assert (first.id, first.name, first.queue, first.status) == (None, None, None, "queued")
    assert (second.name, second.after[0].name, second.after[0].number) == ("work", None, 0)
    for command in (flows.admin.cancel_workflow, flows.admin.retry_workflow):
        with pytest.raises(errors.InvalidTransition, match="do not see"):
            command(flow.id, scope=("open",))
    assert flows.admin.cancel_workflow(flow.id, scope=("open", "vault")).done == 2


def test_the_jobs_and_the_graph_of_a_workflow(flows: Jobs) -> None:
    flow = diamond(flows)
    ids = [job.id for job in flow.jobs]
    page = flows.admin.workflow_jobs(flow.id, page_size=3)
    rest = flows.admin.workflow_jobs(flow.id, page_size=3, cursor=page.next_cursor)
    assert [job.id for job in (*page, *rest)] == ids
    assert [link.name for link in rest[0].after] == ["work", "work"]
    assert [job.id for job in flows.admin.workflow_jobs(flow.id, "queued")] == ids[:1]
    graph = flows.admin.workflow_graph(flow.id)
    assert [[link.number for link in job.after] for job in graph.jobs] == [[], [0], [0], [1, 2]]
    assert not graph.more


def test_a_long_chain_and_a_wide_graph_are_written_and_cancelled(flows: Jobs) -> None:
    with flows.workflow("chain") as chain:
        last: FlowJob | None = None
        for number in range(1500):
            last = chain.add("work", number, after=[] if last is None else last)
    with flows.workflow("wide") as wide:
        top = wide.add("work")
        for number in range(1200):
            wide.add("work", number, after=top)
    assert flows.admin.get_workflow(chain.id).counts == {"queued": 1, "waiting": 1499}
    assert flows.admin.cancel_workflow(chain.id).done == 1500
    assert flows.admin.get_workflow(chain.id).counts == {"cancelled": 1500}
    _succeed(flows)
    assert flows.admin.get_workflow(wide.id).counts == {"succeeded": 1, "queued": 1200}


def test_coroutines_write_workflows_too(flows: Jobs) -> None:
    async def write() -> Flow:
        async with flows.workflow("nightly") as flow:
            flow.add("work", after=flow.add("work"))
        return flow

    flow = asyncio.run(write())
    assert _statuses(flows, flow) == ["queued", "waiting"]


UNWRITTEN: dict[str, tuple[Callable[[Jobs, Flow], Any], type[errors.JobsError], str]] = {
    "an unknown parent": (lambda _, flow: flow.add("work", after="job_nobody"), errors.InvalidWorkflow, "job_nobody"),
    "a parent twice": (lambda _, flow: flow.add("work", after=["job_x", "job_x"]), errors.InvalidOption, "twice"),
    "an unknown name": (lambda _, flow: flow.add("nobody"), errors.UnknownJob, "nobody"),
    "an unknown end": (lambda _, flow: flow.add("work", after="job_x", on="never"), errors.InvalidOption, "on="),
    "an unknown option": (
        lambda _, flow: flow.add("work", colour="red"),  # type: ignore[call-arg]
        errors.InvalidOption,
        "colour",
    ),
    "depends_on": (
        lambda _, flow: flow.add("work", depends_on="job_x"),  # type: ignore[call-arg]
        errors.InvalidOption,
        "after=",
    ),
    "any without parents": (lambda _, flow: flow.add("work", any=True), errors.InvalidOption, "any"),
    "a number as parent": (
        lambda _, flow: flow.add("work", after=7),  # type: ignore[arg-type]
        errors.InvalidOption,
        "after",
    ),
    "two with a key": (
        lambda _, flow: [flow.add("work", business_key="k") for _ in range(2)],
        errors.InvalidWorkflow,
        "business_key",
    ),
    "a key that is taken": (
        lambda _, flow: flow.add("work", idempotency_key="taken"),
        errors.InvalidWorkflow,
        "whole",
    ),
    "a business key that is taken": (
        lambda _, flow: flow.add("work", business_key="taken"),
        errors.InvalidWorkflow,
        "whole",
    ),
    "a job of another workflow": (
        lambda jobs, flow: flow.add("work", after=jobs.workflow("other").add("work")),
        errors.InvalidWorkflow,
        "another workflow",
    ),
    "a comparison with a failure": (
        lambda _, flow: flow.add("work", after="job_x", on="failure", when=Result("", "==", 1)),
        errors.InvalidOption,
        "when",
    ),
    "too many parents": (
        lambda _, flow: flow.add("work", after=[f"job_{number}" for number in range(1001)]),
        errors.InvalidWorkflow,
        "1,000",
    ),
}


@pytest.mark.parametrize("what", UNWRITTEN)
def test_a_graph_that_makes_no_sense_is_refused_whole(flows: Jobs, what: str) -> None:
    add, error, words = UNWRITTEN[what]
    flows.enqueue("work", idempotency_key="taken", business_key="taken")
    with pytest.raises(error, match=words), flows.workflow("nightly") as flow:
        flow.add("work")
        add(flows, flow)
    assert count(flows) == 1
    assert not flows.admin.list_workflows()


def test_what_is_no_workflow_is_refused(flows: Jobs) -> None:
    with pytest.raises(errors.InvalidWorkflow, match="no jobs"), flows.workflow("empty"):
        pass
    flow = diamond(flows)
    with pytest.raises(errors.InvalidWorkflow, match="closed"):
        flow.add("work")
    with pytest.raises(errors.InvalidWorkflow, match="already"), flow:
        pass
    for name in ("", " ", "x" * 129, 7):
        with pytest.raises(errors.InvalidOption, match="name"):
            flows.workflow(name)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidOption, match="metadata"):
        flows.workflow("nightly", metadata=[1])  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidOption, match="status"):
        flows.admin.list_workflows("dead")
    for unknown in ("flow_nobody", "\0", "x" * 500):
        with pytest.raises(errors.UnknownWorkflow):
            flows.admin.cancel_workflow(unknown)


def test_a_graph_over_the_bound_is_refused_before_anything_is_written(flows: Jobs) -> None:
    with pytest.raises(errors.InvalidWorkflow, match="10,000"), flows.workflow("huge") as flow:
        for number in range(MOST_JOBS + 1):
            flow.add("work", number)
    assert count(flows) == 0
