"""Workflows that have ended, lists of them, their graphs, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.dependencies import FlowJob, Result
from sloppyjobs.domain.workflows import MOST_JOBS
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance import flowing as scene
from sloppyjobs.testing.conformance.records import count
from sloppyjobs.workflow.flows import Flow


def test_how_it_ended_is_kept_when_its_jobs_are_gone_and_goes_with_the_last(flows: Jobs, clock: FakeClock) -> None:
    flow = scene.diamond(flows)
    other = scene.diamond(flows)
    while scene.succeed(flows):
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
    scene.die(flows, 1)
    scene.succeed(flows)
    flows.admin.delete(flow.jobs[0].id)
    flows.admin.purge()
    assert flows.admin.get_workflow(flow.id).status == "failed"


def test_workflows_are_listed_open_ones_first_then_newest_by_what_is_asked(flows: Jobs, clock: FakeClock) -> None:
    made = {}
    for word in ("succeeded", "failed", "cancelled", "blocked", "waiting", "running"):
        clock.advance(60)
        made[word] = scene.diamond(flows, correlation_id=word)
        match word:
            case "succeeded":
                while scene.succeed(flows):
                    pass
            case "failed":
                while flows.admin.get_workflow(made[word].id).counts.get("waiting"):
                    scene.succeed(flows)
                scene.die(flows)
            case "cancelled":
                flows.admin.cancel_workflow(made[word].id)
            case "blocked":
                scene.die(flows)
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


def test_an_old_workflow_that_goes_on_is_listed_before_newer_ones_that_have_ended(
    flows: Jobs, clock: FakeClock
) -> None:
    made = []
    for _ in range(6):
        clock.advance(60)
        made.append(scene.diamond(flows))
    for place in (1, 3, 4, 5):
        flows.admin.cancel_workflow(made[place].id)
    wanted = [made[place].id for place in (2, 0, 5, 4, 3, 1)]
    for size in range(1, 8):
        assert _pages(flows, size) == wanted
        assert _pages(flows, size, name="diamond") == wanted
        assert _pages(flows, size, scope=("default",)) == wanted
        assert _pages(flows, size, status=["running", "cancelled"]) == wanted
    flows.admin.purge()
    assert _pages(flows, 2) == wanted
    # What ends while somebody turns the pages is found further on, and nothing is left out.
    first = flows.admin.list_workflows(page_size=1)
    flows.admin.cancel_workflow(made[0].id)
    rest = flows.admin.list_workflows(page_size=10, cursor=first.next_cursor)
    page = flows.admin.list_workflows(page_size=10)
    assert (
        [one.id for one in (*first, *rest)]
        == [one.id for one in page]
        == [made[place].id for place in (2, 5, 4, 3, 1, 0)]
    )


def _pages(flows: Jobs, size: int, **wanted: Any) -> list[str]:
    """The ids of all pages forward; those backward must be the same."""
    pages, cursor = [], None
    while True:
        page = flows.admin.list_workflows(page_size=size, cursor=cursor, **wanted)
        pages.append([one.id for one in page])
        if (cursor := page.next_cursor) is None:
            break
    for earlier in reversed(pages[:-1]):
        page = flows.admin.list_workflows(page_size=size, cursor=page.previous_cursor, **wanted)
        assert [one.id for one in page] == earlier
    assert page.previous_cursor is None or not flows.admin.list_workflows(
        page_size=size, cursor=page.previous_cursor, **wanted
    )
    return [id for page in pages for id in page]


def test_the_jobs_of_a_workflow_are_listed_and_commanded_by_its_id(flows: Jobs) -> None:
    flow, other = scene.diamond(flows), scene.diamond(flows)
    ids = sorted(job.id for job in flow.jobs)
    scene.succeed(flows, 1)
    assert [job.id for job in flows.admin.list_jobs(workflow=flow.id, order="created_at")] == ids
    assert [job.id for job in flows.admin.list_jobs(workflow=flow.id)] == ids[::-1]
    first = flows.admin.list_jobs(workflow=flow.id, page_size=3)
    rest = flows.admin.list_jobs(workflow=flow.id, page_size=3, cursor=first.next_cursor)
    assert [job.id for job in (*first, *rest)] == ids[::-1]
    assert flows.admin.list_jobs(workflow=flow.id, page_size=3, cursor=rest.previous_cursor).items == first.items
    waiting = [job.id for job in flows.admin.list_jobs(["waiting", "scheduled"], workflow=flow.id)]
    assert waiting and set(waiting) < set(ids)
    assert not flows.admin.list_jobs(workflow=flow.id, queue="other")
    assert not flows.admin.list_jobs(workflow=flow.id, scope=("other",))
    assert not flows.admin.list_jobs(workflow="flow_of_nobody")
    with pytest.raises(errors.InvalidOption, match="run_at orders only"):
        flows.admin.list_jobs("scheduled", workflow=flow.id, order="run_at")
    done = flows.admin.bulk("cancel", {"workflow": flow.id, "status": "waiting"})
    assert done.done == len(waiting)
    assert {job.status for job in flows.admin.list_jobs(workflow=other.id)} == {"queued", "waiting"}


def test_a_batch_and_a_workflow_narrow_a_list_together(flows: Jobs) -> None:
    with flows.batch("import") as batch:
        member = batch.enqueue("work")
    flow = scene.diamond(flows)
    assert [job.id for job in flows.admin.list_jobs(batch=batch.id)] == [member.id]
    for status in (None, "queued", "dead"):
        assert not flows.admin.list_jobs(status, batch=batch.id, workflow=flow.id)


def test_a_viewer_of_some_queues_sees_no_more_of_a_workflow(flows: Jobs) -> None:
    with flows.workflow("mixed") as flow:
        secret = flow.add("work", queue="vault")
        seen = flow.add("work", queue="open", after=secret)
    hidden = scene.diamond(flows)
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
    flow = scene.diamond(flows)
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
    scene.succeed(flows)
    assert flows.admin.get_workflow(wide.id).counts == {"succeeded": 1, "queued": 1200}


def test_coroutines_write_workflows_too(flows: Jobs) -> None:
    async def write() -> Flow:
        async with flows.workflow("nightly") as flow:
            flow.add("work", after=flow.add("work"))
        return flow

    flow = asyncio.run(write())
    assert scene.statuses(flows, flow) == ["queued", "waiting"]


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
    flow = scene.diamond(flows)
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
    for unknown in ("flow_nobody", "\0", "\ud800", "x" * 500):
        for ask in (flows.admin.cancel_workflow, flows.admin.workflow_jobs, flows.admin.workflow_blockers):
            with pytest.raises(errors.UnknownWorkflow):
                ask(unknown)


def test_a_graph_over_the_bound_is_refused_before_anything_is_written(flows: Jobs) -> None:
    with pytest.raises(errors.InvalidWorkflow, match="10,000"), flows.workflow("huge") as flow:
        for number in range(MOST_JOBS + 1):
            flow.add("work", number)
    assert count(flows) == 0
