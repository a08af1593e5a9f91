"""Commands: exactly what the state machine allows, each with its trail."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.retry import Retry
from sloppyjobs.domain.states import Status
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance import admin_scenes as scene

COMMANDS = ("retry", "run_now", "pause", "resume", "cancel", "delete")
# From where each command leads where; a state that is absent refuses the command.
LEADS = {
    "retry": {"dead": "queued"},
    "run_now": {"scheduled": "queued", "retrying": "queued", "paused": "queued"},
    "pause": {"scheduled": "paused", "queued": "paused", "retrying": "paused"},
    "resume": {"paused": "queued"},
    "cancel": dict.fromkeys(("scheduled", "queued", "processing", "retrying", "paused"), "cancelled"),
    "delete": dict.fromkeys(("queued", "succeeded", "dead", "cancelled"), "deleted"),
}
THERE_ALREADY = {
    "retry": {"queued"},
    "run_now": {"queued"},
    "pause": {"paused"},
    "resume": {"scheduled", "queued", "retrying"},
    "cancel": {"cancelled"},
    "delete": {"deleted"},
}


@pytest.mark.parametrize("status", scene.REACHABLE)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_does_exactly_what_the_state_machine_allows(jobs: Jobs, command: str, status: Status) -> None:
    job = scene.in_status(jobs, status)
    before = scene.table_sizes(jobs)
    assert (command in jobs.admin.actions(job.status)) is (status in LEADS[command])
    act = getattr(jobs.admin, command)
    if status in LEADS[command]:
        after = act(job.id, actor="ada", reason="because")
        assert (after.id, after.status) == (job.id, LEADS[command][status])
        event = jobs.admin.events(job.id).items[-1]
        assert (event.from_status, event.to_status) == (status, after.status)
        assert (event.actor, event.message) == ("ada", "because")
        entry = jobs.admin.audit(target=job.id).items[0]
        assert (entry.action, entry.actor, entry.reason, entry.target_type) == (command, "ada", "because", "job")
        assert entry.detail == {"from": status, "to": after.status}
        return
    if status in THERE_ALREADY[command]:
        assert act(job.id, actor="ada").status is status
    else:
        with pytest.raises(errors.InvalidTransition, match=f"is {status} and cannot become .* by {command}"):
            act(job.id, actor="ada")
    assert scene.table_sizes(jobs) == before
    assert jobs.get(job.id) == job


def test_a_dead_job_is_retried_with_a_fresh_budget_and_numbers_that_go_on(jobs: Jobs, clock: FakeClock) -> None:
    scene.declared(jobs)
    job = jobs.enqueue(scene.NAME, {}, retry=Retry(max_attempts=2))
    for _ in range(2):
        jobs.fail(jobs.claim("w")[0], "no", retry_after=0)
    assert jobs.get(job.id).status == "dead"
    clock.advance(3600)
    after = jobs.admin.retry(job.id)
    assert (after.attempt_count, after.max_attempts, after.run_at) == (2, 4, clock.now())
    assert after.finished_at is None
    assert [jobs.claim("w")[0].attempt for _ in range(1)] == [3]


def test_the_budget_of_a_retry_comes_from_the_definition_where_none_is_stored(jobs: Jobs) -> None:
    job = scene.dead(jobs)
    assert jobs.admin.retry(job.id).max_attempts == 1 + 3


def test_a_paused_job_goes_back_to_where_it_came_from(jobs: Jobs) -> None:
    for status in (Status.SCHEDULED, Status.RETRYING, Status.QUEUED):
        job = scene.in_status(jobs, status)
        paused = jobs.admin.pause(job.id)
        assert (paused.status, paused.paused_from) == ("paused", status)
        resumed = jobs.admin.resume(job.id)
        assert (resumed.status, resumed.paused_from, resumed.run_at) == (status, None, job.run_at)


def test_a_paused_job_is_not_claimed(jobs: Jobs) -> None:
    jobs.admin.pause(scene.queued(jobs).id)
    assert jobs.claim("w") == []


def test_run_now_brings_a_job_to_the_workers_at_once(jobs: Jobs, clock: FakeClock) -> None:
    job = scene.queued(jobs, delay=3600)
    after = jobs.admin.run_now(job.id)
    assert after.run_at == clock.now()
    assert [claim.id for claim in jobs.claim("w")] == [job.id]


def test_cancelling_a_running_job_makes_its_settlement_stale(jobs: Jobs) -> None:
    scene.queued(jobs)
    [claim] = jobs.claim("w")
    jobs.admin.cancel(claim.id, actor="ada", reason="wrong customer")
    assert jobs.complete(claim) is False
    [attempt] = jobs.admin.attempts(claim.id)
    assert (attempt.status, attempt.error_message) == ("cancelled", "wrong customer")


def test_actor_and_reason_are_cleaned_and_cut(jobs: Jobs) -> None:
    job = scene.queued(jobs)
    jobs.admin.cancel(job.id, actor="a\0da" + "x" * 1000, reason="\ud800" + "y" * 10_000)
    [entry] = jobs.admin.audit(target=job.id)
    assert entry.actor is not None
    assert entry.actor.startswith("adax")
    assert len(entry.actor) <= 255
    assert len(entry.reason or "") <= 2_000
    with pytest.raises(errors.InvalidOption, match=r"^actor="):
        jobs.admin.delete(job.id, actor=7)  # type: ignore[arg-type]
    assert jobs.get(job.id).status == "cancelled"


# Queues


def test_no_job_of_a_paused_queue_is_claimed_until_it_is_resumed(jobs: Jobs) -> None:
    job = scene.queued(jobs, queue="mails")
    view = jobs.admin.pause_queue("mails", actor="ada", reason="flood")
    assert (view.paused, view.paused_until) == (True, None)
    assert jobs.claim("w", queues=["*"]) == []
    assert jobs.admin.resume_queue("mails", actor="ada").paused is False
    assert [claim.id for claim in jobs.claim("w", queues=["*"])] == [job.id]
    assert [entry.action for entry in jobs.admin.audit(target="mails")] == ["resume_queue", "pause_queue"]


def test_a_pause_with_an_end_ends_by_itself(jobs: Jobs, clock: FakeClock) -> None:
    job = scene.queued(jobs)
    until = clock.now() + timedelta(minutes=5)
    assert jobs.admin.pause_queue("default", until=until).paused_until == until
    assert jobs.claim("w") == []
    clock.advance(301)
    assert jobs.admin.get_queue("default").paused is False
    assert [claim.id for claim in jobs.claim("w")] == [job.id]


def test_a_queue_can_be_paused_before_anybody_has_used_it(jobs: Jobs) -> None:
    jobs.admin.pause_queue("tomorrow", create=True)
    scene.queued(jobs, queue="tomorrow")
    assert jobs.claim("w", queues=["tomorrow"]) == []


def test_pausing_twice_is_audited_once_unless_the_end_changes(jobs: Jobs, clock: FakeClock) -> None:
    jobs.admin.pause_queue("mails", create=True)
    jobs.admin.pause_queue("mails")
    assert len(jobs.admin.audit(target="mails")) == 1
    jobs.admin.pause_queue("mails", until=clock.now() + timedelta(hours=1))
    assert len(jobs.admin.audit(target="mails")) == 2
    jobs.admin.resume_queue("mails")
    jobs.admin.resume_queue("mails")
    assert len(jobs.admin.audit(target="mails")) == 3


@pytest.mark.parametrize("until", ["2020-01-01T00:00:00Z", "soon", 60])
def test_a_pause_that_ends_in_the_past_is_refused(jobs: Jobs, until: Any) -> None:
    with pytest.raises(errors.InvalidOption, match=r"^until="):
        jobs.admin.pause_queue("mails", until=until, create=True)
    assert jobs.admin.list_queues().items == ()


def test_a_queue_that_nobody_knows_is_refused_by_name(jobs: Jobs) -> None:
    for read in (jobs.admin.get_queue, jobs.admin.resume_queue):
        with pytest.raises(errors.UnknownQueue, match="'nowhere'"):
            read("nowhere")


def test_pausing_a_queue_that_nobody_knows_is_refused_and_names_those_there_are(jobs: Jobs) -> None:
    scene.queued(jobs, queue="mails")
    with pytest.raises(errors.UnknownQueue, match=r"'mial'; known are 'mails'\. .*create=True"):
        jobs.admin.pause_queue("mial")
    with pytest.raises(errors.InvalidOption, match="every queue"):
        jobs.admin.pause_queue("*", create=True)
    assert [queue.name for queue in jobs.admin.list_queues()] == ["mails"]


def test_a_queue_is_known_by_a_definition_or_a_live_worker_too(jobs: Jobs) -> None:
    jobs.declare("resize", queue="media")
    scene.live_worker(jobs, queues=("reports",))
    assert jobs.admin.pause_queue("media").paused
    assert jobs.admin.pause_queue("reports").paused


# Many jobs


def test_a_bulk_command_acts_on_what_the_filter_finds(jobs: Jobs) -> None:
    gone = {scene.dead(jobs, queue="a").id for _ in range(3)}
    kept = scene.dead(jobs, queue="b")
    result = jobs.admin.bulk("retry", {"queue": "a"}, actor="ada", reason="fixed")
    assert (result.done, result.matched, result.more, result.skipped) == (3, 3, False, {})
    assert set(result.sample_ids) == gone
    assert {jobs.get(id).status for id in gone} == {"queued"}
    assert jobs.get(kept.id).status == "dead"
    assert jobs.admin.events(next(iter(gone))).items[-1].actor == "ada"
    [entry] = jobs.admin.audit(actor="ada")
    assert (entry.action, entry.target_type, entry.reason) == ("retry", "jobs", "fixed")
    assert entry.detail == {"filter": {"queue": "a"}, "matched": 3, "done": 3, "skipped": {}}


def test_a_dry_run_tells_what_would_happen_and_writes_nothing(jobs: Jobs) -> None:
    made = [scene.dead(jobs).id for _ in range(12)]
    before = scene.table_sizes(jobs)
    result = jobs.admin.bulk("retry", {"status": "dead"}, dry_run=True)
    assert (result.dry_run, result.matched, result.done, result.more) == (True, 12, 12, False)
    assert [row.status for row in result.sample] == ["dead"] * 10
    assert set(result.sample_ids) < set(made)
    assert scene.table_sizes(jobs) == before
    assert {jobs.get(id).status for id in made} == {"dead"}


def test_a_bulk_command_stops_at_its_limit_and_says_so(jobs: Jobs) -> None:
    scene.declared(jobs)
    jobs.enqueue_many([(scene.NAME, {})] * 230)
    result = jobs.admin.bulk("cancel", {"queue": "default"}, limit=120)
    assert (result.done, result.matched, result.more) == (120, 120, True)
    rest = jobs.admin.bulk("cancel", {"queue": "default"})
    assert (rest.done, rest.more) == (110, False)


def test_the_oldest_go_first_so_that_a_few_can_be_tried(jobs: Jobs, clock: FakeClock) -> None:
    made = scene.one_after_another(jobs, clock, 4)
    assert jobs.admin.bulk("cancel", {"queue": "default"}, limit=2).sample_ids == tuple(made[:2])


def test_jobs_named_by_id_are_each_answered_for(jobs: Jobs) -> None:
    died, done, waits = scene.dead(jobs), scene.succeeded(jobs), scene.queued(jobs)
    result = jobs.admin.bulk("retry", {"ids": [died.id, done.id, waits.id, "job_nobody"]})
    assert result.done == 1
    assert result.skipped == {"already queued": 1, "is succeeded": 1, "unknown, or outside the filter": 1}


def test_a_cause_can_be_retried_as_a_whole(jobs: Jobs) -> None:
    first, second = scene.dead(jobs, ValueError("a")), scene.dead(jobs, ValueError("b"))
    other, reported = scene.dead(jobs, KeyError("c")), scene.dead(jobs, "in words")
    result = jobs.admin.bulk("retry", {"error_type": "ValueError", "error_frame": None})
    assert set(result.sample_ids) == {first.id, second.id}
    assert jobs.get(other.id).status == "dead"
    result = jobs.admin.bulk("delete", {"error_type": None, "error_frame": None})
    assert result.sample_ids == (reported.id,)


def test_a_scope_holds_for_bulk_commands_too(jobs: Jobs) -> None:
    theirs, mine = scene.queued(jobs, queue="theirs"), scene.queued(jobs, queue="mine")
    result = jobs.admin.bulk("cancel", {"ids": [theirs.id, mine.id]}, scope=["mine"])
    assert (result.done, jobs.get(theirs.id).status) == (1, "queued")


def test_a_job_that_moved_on_since_it_was_found_is_left_alone(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    job = scene.queued(jobs)
    find = jobs.storage.lists.find

    def find_then_claim(*arguments: Any, **options: Any) -> Any:
        found = find(*arguments, **options)
        jobs.claim("w")
        return found

    monkeypatch.setattr(jobs.storage.lists, "find", find_then_claim)
    result = jobs.admin.bulk("cancel", {"status": "queued"})
    assert (result.done, result.skipped) == (0, {"became processing meanwhile": 1})
    assert jobs.get(job.id).status == "processing"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("explode", {"queue": "a"}), "action"),
        (("retry", {}), "filter"),
        (("retry", {"queue": None}), "filter"),
        (("retry", {"colour": "red"}), "filter"),
        (("retry", {"order": "created_at", "queue": "a"}), "filter"),
        (("retry", "all"), "filter"),
        (("retry", {"queue": "a"}, 0), "limit"),
        (("retry", {"queue": "a"}, 10_001), "limit"),
        (("retry", {"ids": "job_1"}), "ids"),
        (("retry", {"ids": []}), "ids"),
        (("retry", {"status": "done"}), "status"),
    ],
)
def test_a_bulk_command_refuses_what_it_cannot_do(jobs: Jobs, arguments: tuple[Any, ...], named: str) -> None:
    scene.dead(jobs)
    before = scene.table_sizes(jobs)
    with pytest.raises(errors.InvalidOption, match=f"^{named}="):
        jobs.admin.bulk(*arguments)
    assert scene.table_sizes(jobs) == before
