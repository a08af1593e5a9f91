"""Dependencies: a job starts when those it waits for have ended as it needs, and never waits for ever unseen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.dependencies import After, Result
from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.domain.retry import NO_RETRY
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import count, transitions


@pytest.fixture
def unsettled(jobs: Jobs) -> Jobs:
    """Jobs with a name that everybody uses here, for tests in which no attempt ends."""
    jobs.declare("work", retry=NO_RETRY)
    return jobs


@pytest.fixture(params=["settle", "turn"])
def work(unsettled: Jobs, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """The same; their attempts end by themselves, or in a worker's turn."""
    store = unsettled.storage
    if request.param == "turn":
        monkeypatch.setattr(store, "settle", lambda settlements: store.turn(settlements, None)[0])
    return unsettled


def _claim(jobs: Jobs, job: Job) -> Claim:
    """Claim this job, and put back whatever else was due."""
    claims = jobs.claim("worker-1", queues=("*",), limit=100)
    [wanted] = [claim for claim in claims if claim.id == job.id]
    assert len(claims) == 1, "one at a time"
    return wanted


def _succeed(jobs: Jobs, job: Job, result: Any = None) -> None:
    assert jobs.complete(_claim(jobs, job), result)


def _die(jobs: Jobs, job: Job) -> None:
    assert jobs.fail(_claim(jobs, job), ValueError("no"))


def _cancel(jobs: Jobs, job: Job) -> None:
    jobs.admin.cancel(job.id)


def _delete(jobs: Jobs, job: Job) -> None:
    jobs.admin.delete(job.id)


def _statuses(jobs: Jobs, made: Sequence[Job]) -> list[str]:
    found = {record.id: record.status for record in jobs.storage.inspection.jobs()}
    return [found[job.id] for job in made]


ENDS: dict[str, Callable[[Jobs, Job], None]] = {
    "succeeded": _succeed,
    "dead": _die,
    "cancelled": _cancel,
    "deleted": _delete,
}
BECOMES = {
    ("success", "succeeded"): "queued",
    ("success", "dead"): "waiting",
    ("success", "cancelled"): "cancelled",
    ("success", "deleted"): "cancelled",
    ("failure", "succeeded"): "cancelled",
    ("failure", "dead"): "queued",
    ("failure", "cancelled"): "queued",
    ("failure", "deleted"): "queued",
    ("always", "succeeded"): "queued",
    ("always", "dead"): "queued",
    ("always", "cancelled"): "queued",
    ("always", "deleted"): "queued",
}


@pytest.mark.parametrize(("on", "end"), BECOMES)
def test_what_the_end_of_a_parent_means(work: Jobs, on: str, end: str) -> None:
    parent = work.enqueue("work")
    child = work.enqueue("work", depends_on=After(parent, on=on))
    assert (child.status, work.get(child.id).status) == ("waiting", "waiting")
    ENDS[end](work, parent)
    assert work.get(child.id).status == BECOMES[on, end]
    after = {"queued": ["unblocked:queued"], "cancelled": ["cancelled:cancelled"], "waiting": []}[BECOMES[on, end]]
    assert transitions(work, child.id) == ["created:waiting", *after]


@pytest.mark.parametrize(("on", "end"), BECOMES)
def test_a_parent_that_has_ended_already(work: Jobs, on: str, end: str) -> None:
    parent = work.enqueue("work")
    ENDS[end](work, parent)
    child = work.enqueue("work", depends_on=[After(parent.id, on=on)])
    assert work.get(child.id).status == BECOMES[on, end]


def test_a_job_that_can_never_start_is_told_as_cancelled(work: Jobs) -> None:
    gone = work.enqueue("work")
    work.admin.cancel(gone.id)
    assert work.enqueue("work", depends_on=gone).status == "cancelled"
    chain = work.chain([("work", 1, {"depends_on": gone}), ("work", 2), ("work", 3)])
    assert [job.status.value for job in chain] == _statuses(work, chain) == ["cancelled"] * 3
    keyed = work.enqueue_many([("work", n, {"business_key": "account:7", "on_conflict": "replace"}) for n in range(3)])
    assert [job.status.value for job in keyed] == _statuses(work, keyed) == ["cancelled", "cancelled", "queued"]


def test_a_paused_job_that_waits_for_others_is_not_run_now(work: Jobs) -> None:
    parent = work.enqueue("work", delay=60)
    child = work.enqueue("work", depends_on=parent)
    work.admin.pause(child.id)
    assert work.admin.get_job(child.id).actions == ("resume", "cancel")
    with pytest.raises(errors.InvalidTransition, match="what it can take is resume, cancel"):
        work.admin.run_now(child.id)
    assert work.admin.bulk("run_now", {"status": "paused"}).done == 0
    work.admin.resume(child.id)
    assert _statuses(work, [child]) == ["waiting"]


def test_a_job_waits_for_all_of_its_parents(work: Jobs) -> None:
    first, second = work.enqueue("work", priority=1), work.enqueue("work", delay=60)
    child = work.enqueue("work", depends_on=[first, second.id])
    _succeed(work, first)
    assert work.get(child.id).status == "waiting"
    work.admin.run_now(second.id)
    _succeed(work, second)
    assert work.get(child.id).status == "queued"


def test_one_parent_can_be_enough(work: Jobs) -> None:
    parents = [work.enqueue("work", delay=60) for _ in range(3)]
    child = work.enqueue("work", depends_on=parents, depends_on_any=True)
    never = work.enqueue("work", depends_on=parents, depends_on_any=True)
    work.admin.cancel(parents[0].id)
    assert _statuses(work, [child, never]) == ["waiting", "waiting"]
    work.admin.cancel(never.id)
    work.admin.run_now(parents[1].id)
    _succeed(work, parents[1])
    assert work.get(child.id).status == "queued"
    hopeless = work.enqueue("work", depends_on=[parents[0], parents[2]], depends_on_any=True)
    work.admin.cancel(parents[2].id)
    assert work.get(hopeless.id).status == "cancelled"


def test_a_dead_parent_holds_until_it_is_retried(work: Jobs) -> None:
    parent = work.enqueue("work")
    child = work.enqueue("work", depends_on=parent)
    _die(work, parent)
    assert work.get(child.id).status == "waiting"
    work.admin.retry(parent.id)
    _succeed(work, parent)
    assert work.get(child.id).status == "queued"


@pytest.mark.parametrize(
    ("test", "becomes"),
    [
        (Result("/rows", ">", 0), "queued"),
        (Result("/rows", "<=", 0), "cancelled"),
        (Result("/nested/0/name", "==", "ada"), "queued"),
        (Result("/nowhere", "==", None), "cancelled"),
        (Result("/rows", ">", "text"), "cancelled"),
        (Result("/flag", "!=", False), "queued"),
        (Result("/flag", "==", 1), "cancelled"),
        (Result("/large", "==", 2**53 + 1), "queued"),
        (Result("/large", "==", 2**53), "cancelled"),
        (Result("/a~1b", "==", 2), "queued"),
        (Result("/nested/00/name", "==", "ada"), "cancelled"),
        (Result("/nested/" + "9" * 5000, "==", 1), "cancelled"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_the_result_of_a_parent_decides(work: Jobs, test: Result, becomes: str) -> None:
    parent = work.enqueue("work")
    child = work.enqueue("work", depends_on=After(parent, when=test))
    _succeed(work, parent, {"rows": 3, "nested": [{"name": "ada"}], "flag": True, "large": 2**53 + 1, "a/b": 2})
    late = work.enqueue("work", depends_on=After(parent, when=test))
    assert _statuses(work, [child, late]) == [becomes, becomes]


def test_cancelling_goes_down_the_whole_chain(unsettled: Jobs) -> None:
    made = unsettled.chain([("work", n) for n in range(300)])
    assert _statuses(unsettled, made[:3]) == ["queued", "waiting", "waiting"]
    unsettled.admin.cancel(made[0].id)
    assert set(_statuses(unsettled, made)) == {"cancelled"}


def test_a_job_of_a_chain_waits_for_the_one_before_whatever_else_it_waits_for(work: Jobs) -> None:
    either = {"depends_on": work.enqueue("work"), "depends_on_any": True}
    with pytest.raises(errors.InvalidOption, match="chain") as refused:
        work.chain([("work", 1), ("work", 2, either)])
    assert (refused.value.field, count(work)) == ("items[1].depends_on_any", 1)
    assert len(work.chain([("work", 1, either), ("work", 2)])) == 2


def test_a_chain_runs_one_after_the_other(work: Jobs) -> None:
    made = work.chain([("work", n, {"queue": "q"}) for n in range(4)])
    for number, job in enumerate(made):
        assert _statuses(work, made) == ["succeeded"] * number + ["queued"] + ["waiting"] * (3 - number)
        _succeed(work, job)
    assert set(_statuses(work, made)) == {"succeeded"}


def test_a_released_job_keeps_its_time(work: Jobs, clock: FakeClock) -> None:
    parent = work.enqueue("work")
    child = work.enqueue("work", depends_on=parent, delay=60)
    _succeed(work, parent)
    assert work.get(child.id).status == "scheduled"
    clock.advance(60)
    work.storage.sweep()
    assert work.get(child.id).status == "queued"


def test_a_parent_with_very_many_children(work: Jobs) -> None:
    parent = work.enqueue("work")
    children = work.enqueue_many([("work", n, {"depends_on": [parent]}) for n in range(1200)])
    assert {child.status for child in children} == {"waiting"}
    _succeed(work, parent)
    assert {child.status for child in work.storage.inspection.jobs() if child.id != parent.id} == {"queued"}


def test_parents_that_end_at_once_do_not_miss_each_other(work: Jobs) -> None:
    for _ in range(5):
        parents = work.enqueue_many([("work", n) for n in range(6)])
        child = work.enqueue("work", depends_on=parents, priority=-5)
        claims = work.claim("worker-1", limit=6)
        assert len(claims) == 6
        barrier = threading.Barrier(6)

        def finish(claim: Claim, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait(30)
            return work.complete(claim)

        with ThreadPoolExecutor(6) as pool:
            assert all(pool.map(finish, claims))
        assert work.get(child.id).status == "queued"
        work.admin.cancel(child.id)


def test_a_parent_that_ends_while_its_child_is_written_is_seen(work: Jobs) -> None:
    for _ in range(10):
        parent = work.enqueue("work")
        [claim] = work.claim("worker-1")
        barrier = threading.Barrier(2)

        def write(parent: Job = parent, barrier: threading.Barrier = barrier) -> Job:
            barrier.wait(30)
            return work.enqueue("work", depends_on=parent)

        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(write)
            barrier.wait(30)
            assert work.complete(claim)
            child = written.result()
        assert work.get(child.id).status == "queued"
        work.admin.cancel(child.id)


def test_a_lost_lease_and_an_expiry_of_a_parent_count_too(work: Jobs, clock: FakeClock) -> None:
    lost, late = work.enqueue("work"), work.enqueue("work", expires=10, delay=5)
    of_lost = work.enqueue("work", depends_on=After(lost, on="failure"))
    of_late = work.enqueue("work", depends_on=late)
    _claim(work, lost)
    clock.advance(40)
    work.storage.sweep()
    assert _statuses(work, [lost, late, of_lost, of_late]) == ["dead", "cancelled", "queued", "cancelled"]


def test_a_child_that_was_paused_sees_what_happened_meanwhile(work: Jobs) -> None:
    parent = work.enqueue("work")
    child = work.enqueue("work", depends_on=parent)
    work.admin.pause(child.id)
    _succeed(work, parent)
    assert work.get(child.id).status == "paused"
    work.admin.resume(child.id)
    assert work.get(child.id).status == "queued"


def test_a_waiting_job_can_be_cancelled_and_deleted_with_all_that_it_left(work: Jobs, clock: FakeClock) -> None:
    parent = work.enqueue("work")
    child = work.enqueue("work", depends_on=parent)
    work.admin.cancel(child.id)
    work.admin.delete(child.id)
    _succeed(work, parent)
    assert work.get(child.id).status == "deleted"
    clock.advance(timedelta(days=2))
    assert work.admin.purge().jobs == 1
    assert count(work) == 1


def test_a_business_key_is_kept_while_its_job_waits(unsettled: Jobs) -> None:
    parent = unsettled.enqueue("work")
    child = unsettled.enqueue("work", depends_on=parent, business_key="ada")
    assert unsettled.enqueue("work", business_key="ada").id == child.id
    unsettled.admin.cancel(parent.id)
    assert not unsettled.enqueue("work", business_key="ada").existing


def test_what_waits_is_listed_and_explained(work: Jobs) -> None:
    parent = work.enqueue("work")
    child = work.enqueue("work", depends_on=parent)
    assert [job.id for job in work.admin.list_jobs("waiting")] == [child.id]
    assert parent.id in work.admin.explain(child.id).verdict
    _die(work, parent)
    verdict = work.admin.explain(child.id).verdict
    assert parent.id in verdict and "dead" in verdict


def test_handlers_see_the_results_of_their_parents(jobs: Jobs) -> None:
    seen: list[Any] = []
    jobs.define("extract", lambda ctx, payload: {"rows": payload})
    jobs.define("count", lambda ctx, payload: None)
    jobs.define("load", lambda ctx, payload: seen.append(ctx.parents))
    one, two, none = jobs.enqueue("extract", 1), jobs.enqueue("extract", 2), jobs.enqueue("count")
    jobs.enqueue("load", depends_on=[one, two, none])
    jobs.enqueue("load", depends_on=one)
    jobs.enqueue("load")
    worker = jobs.create_worker()
    while worker.run_once():
        pass
    by_size = {len(parents): parents for parents in seen}
    assert dict(by_size[3]) == {one.id: {"rows": 1}, two.id: {"rows": 2}, none.id: None}
    assert (by_size[1]["extract"], by_size[1][one.id], by_size[3]["count"]) == ({"rows": 1}, {"rows": 1}, None)
    with pytest.raises(KeyError, match="2 parents"):
        by_size[3]["extract"]
    assert (dict(by_size[0]), by_size[0].get("extract")) == ({}, None)


def test_a_job_that_is_replaced_in_the_call_that_adds_its_child_ends_for_the_child_too(unsettled: Jobs) -> None:
    parent = unsettled.enqueue("work", business_key="k")
    made = unsettled.enqueue_many(
        [
            ("work", 1, {"depends_on": [After(parent, on="always")]}),
            ("work", 2, {"depends_on": [parent]}),
            ("work", 3, {"business_key": "k", "on_conflict": "replace"}),
        ]
    )
    assert _statuses(unsettled, [parent, *made]) == ["cancelled", "queued", "cancelled", "queued"]


SENSELESS: dict[str, tuple[Any, type[errors.JobsError], str]] = {
    "an unknown job": ("job_nobody", errors.InvalidWorkflow, "job_nobody"),
    "a number": (7, errors.InvalidOption, "depends_on"),
    "an empty id": ([""], errors.InvalidOption, "depends_on"),
    "an unknown end": ([After("job_x", on="sometimes")], errors.InvalidOption, "on="),
    "a comparison with a failure": (
        [After("job_x", on="failure", when=Result("", "==", 1))],
        errors.InvalidOption,
        "when",
    ),
    "a path with a bare tilde": ([After("job_x", when=Result("/a~b", "==", 1))], errors.InvalidOption, "path"),
    "the same job twice": (["job_x", "job_x"], errors.InvalidOption, "twice"),
    "too many": ([f"job_{number}" for number in range(1001)], errors.InvalidWorkflow, "1,000"),
}


@pytest.mark.parametrize("what", SENSELESS)
def test_a_dependency_that_makes_no_sense_is_refused(unsettled: Jobs, what: str) -> None:
    given, error, words = SENSELESS[what]
    for call in (
        lambda: unsettled.enqueue("work", depends_on=given),
        lambda: unsettled.enqueue_many([("work", 1), ("work", 2, {"depends_on": given})]),
    ):
        with pytest.raises(error, match=words):
            call()
    assert count(unsettled) == 0


def test_a_comparison_that_makes_no_sense_is_refused() -> None:
    for path, compare, value in (("rows", "==", 1), ("/rows", "~", 1), ("/rows", "==", [1]), (7, "==", 1)):
        with pytest.raises(errors.InvalidOption):
            Result(path, compare, value)  # type: ignore[arg-type]


def test_nothing_is_an_empty_dependency(unsettled: Jobs) -> None:
    assert unsettled.enqueue("work", depends_on=[]).status == "queued"
    with pytest.raises(errors.InvalidOption, match="depends_on"):
        unsettled.enqueue("work", depends_on_any=True)
