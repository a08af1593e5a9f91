"""Schedules: what an operator does to them and sees of them, and rows that are damaged."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.storage.ports.schedules import SET_ASIDE
from sloppyjobs.testing.conformance.records import count
from sloppyjobs.testing.conformance.scheduling import damage, occurrences, utc

MINUTE = timedelta(minutes=1)

# Creating and changing


def test_an_operator_creates_a_schedule_and_the_trail_says_so(scheduler: Jobs, clock: FakeClock) -> None:
    admin = scheduler.admin
    made = admin.create_recurring("s", "sync", {"n": 1}, every=60, queue="q", actor="ada", reason="asked for")
    assert (made.every, made.queue, made.declared, made.next_run_at) == (60.0, "q", False, clock.now() + MINUTE)
    with pytest.raises(errors.DuplicateJob, match="'s' already"):
        admin.create_recurring("s", "sync", every=5)
    for wrong in ({"cron": "61 * * * *"}, {"every": 5, "crn": "x"}, {}):
        with pytest.raises(errors.JobsError):
            admin.create_recurring("other", "sync", **wrong)
    assert [one.name for one in admin.list_recurring()] == ["s"]
    assert [(one.action, one.actor, one.reason) for one in admin.audit()] == [("create_recurring", "ada", "asked for")]
    clock.advance(60)
    [job] = scheduler.tick_recurring()
    assert (job.queue, scheduler.claim("w", queues=("q",))[0].payload) == ("q", {"n": 1})


def test_the_queue_of_a_schedule_is_there_before_its_first_job(scheduler: Jobs) -> None:
    scheduler.define("later", lambda _ctx, _payload: None, queue="own")
    scheduler.recurring("s", "later", every=60)
    assert scheduler.admin.get_queue("own").name == "own"
    scheduler.admin.edit_recurring("s", queue="given")
    assert [queue.name for queue in scheduler.admin.list_queues()] == ["given", "own"]


def test_an_operator_changes_a_schedule_and_what_is_not_given_stays(scheduler: Jobs, clock: FakeClock) -> None:
    admin = scheduler.admin
    scheduler.recurring("s", "sync", {"n": 1}, cron="0 3 * * *", timezone="Europe/Paris", misfire="ignore", priority=4)
    admin.pause_recurring("s")
    edited = admin.edit_recurring("s", cron="0 5 * * *", actor="ada")
    assert (edited.cron, edited.timezone, edited.misfire) == ("0 5 * * *", "Europe/Paris", "ignore")
    assert (edited.paused, edited.priority, edited.next_run_at) == (True, 4, utc("2030-01-02 04:00"))
    edited = admin.edit_recurring("s", every=60)
    assert (edited.kind, edited.cron, edited.every) == ("interval", None, 60.0)
    assert admin.edit_recurring("s", payload={"n": 2}).every == 60.0
    job = admin.trigger_recurring("s")
    [claim] = scheduler.claim("w", queues=(job.queue,))
    assert claim.payload == {"n": 2}
    assert [one.action for one in admin.audit()][1:4] == ["edit_recurring"] * 3


def test_a_change_that_cannot_work_changes_nothing(scheduler: Jobs) -> None:
    admin = scheduler.admin
    before = scheduler.recurring("s", "sync", {"n": 1}, every=60)
    scheduler.declare_recurring("declared", "sync", every=60)
    scheduler.schedules.sync()
    with pytest.raises(errors.UnknownSchedule):
        admin.edit_recurring("nobody", every=5)
    with pytest.raises(errors.InvalidTransition, match="declared in code"):
        admin.edit_recurring("declared", every=5)
    with pytest.raises(errors.InvalidSchedule):
        admin.edit_recurring("s", cron="61 * * * *")
    with pytest.raises(errors.InvalidOption, match="evry"):
        admin.edit_recurring("s", evry=5)  # type: ignore[call-arg]
    assert admin.get_recurring("s") == before
    assert list(admin.audit()) == []


# Pausing, triggering, deleting


def test_a_paused_schedule_does_not_fire_and_makes_up_for_nothing_afterwards(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", cron="0 * * * *", misfire="catch-up-limited")
    scheduler.schedules.pause("s")
    clock.advance(timedelta(hours=3, minutes=30))
    assert scheduler.tick_recurring() == []
    view = scheduler.schedules.resume("s")
    assert (view.paused, view.next_run_at) == (False, utc("2030-01-01 16:00"))
    assert scheduler.tick_recurring() == []
    clock.advance(timedelta(minutes=30))
    assert occurrences(scheduler.tick_recurring()) == [utc("2030-01-01 16:00")]


def test_an_interval_resumes_on_its_grid(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", every=600)
    scheduler.schedules.pause("s")
    clock.advance(1500)
    assert scheduler.schedules.resume("s").next_run_at == utc("2030-01-01 12:30")


def test_a_pause_does_not_lose_what_is_to_happen_once(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("reminder", "sync", at=clock.now() + timedelta(minutes=1))
    scheduler.schedules.pause("reminder")
    clock.advance(3600)
    assert scheduler.tick_recurring() == []
    scheduler.schedules.resume("reminder")
    assert len(scheduler.tick_recurring()) == 1


def test_pausing_and_resuming_again_changes_nothing(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", every=60)
    paused = scheduler.schedules.pause("s")
    clock.advance(1)
    assert scheduler.schedules.pause("s") == paused
    resumed = scheduler.schedules.resume("s")
    clock.advance(1)
    assert scheduler.schedules.resume("s") == resumed


def test_a_triggered_schedule_enqueues_one_job_and_keeps_its_cursor(scheduler: Jobs, clock: FakeClock) -> None:
    before = scheduler.recurring("s", "sync", {"n": 1}, every=60, paused=True)
    job = scheduler.schedules.trigger("s", actor="ada")
    assert (job.schedule_id, job.occurrence_at, job.status) == (before.id, clock.now(), "queued")
    assert (job.principal, job.metadata) == ("ada", {"recurring.trigger": "manual"})
    assert scheduler.schedules.get("s") == before
    assert scheduler.schedules.trigger("s").id != job.id
    assert [claim.payload for claim in scheduler.claim("worker", limit=5)] == [{"n": 1}, {"n": 1}]


def test_deleting_a_schedule_leaves_its_jobs_alone(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", every=60)
    clock.advance(60)
    [job] = scheduler.tick_recurring()
    assert scheduler.schedules.delete("s").name == "s"
    clock.advance(60)
    assert scheduler.tick_recurring() == []
    assert scheduler.get(job.id) == job


@pytest.mark.parametrize("command", ["get", "pause", "resume", "trigger", "delete"])
@pytest.mark.parametrize("name", ["nobody", "", "a\0b", "x" * 1000])
def test_a_command_on_an_unknown_schedule_names_it(scheduler: Jobs, command: str, name: str) -> None:
    with pytest.raises(errors.UnknownJob, match="no schedule is named"):
        getattr(scheduler.schedules, command)(name)


# Damaged rows


DAMAGE: list[dict[str, Any]] = [
    {"cron": "every day"},
    {"cron": None},
    {"timezone": "Mars/Olympus"},
    {"kind": "lunar"},
    {"misfire": "sometimes"},
    {"payload": "{"},
    {"job_defaults": "[]", "job_name": "unknown-here"},
]


@pytest.mark.parametrize("values", DAMAGE, ids=lambda values: next(iter(values)))
def test_a_damaged_schedule_is_shown_and_set_aside_while_the_rest_fire(
    scheduler: Jobs, clock: FakeClock, values: dict[str, Any]
) -> None:
    scheduler.recurring("broken", "sync", cron="0 * * * *")
    scheduler.recurring("fine", "sync", cron="0 * * * *")
    damage(scheduler, "broken", next_run_at=utc("2030-01-01 12:30"), **values)
    clock.advance(timedelta(hours=1))
    fine = scheduler.schedules.get("fine").id
    assert [job.schedule_id for job in scheduler.tick_recurring(limit=2)] == [fine]
    broken = scheduler.schedules.get("broken")
    assert broken.last_error
    assert (broken.last_error_at, broken.next_run_at) == (clock.now(), utc("2030-01-01 12:30"))
    assert scheduler.storage.firing.due(10) == []
    assert scheduler.storage.firing.next_in() == SET_ASIDE.total_seconds()


def test_damaged_schedules_do_not_use_up_the_limit_of_a_tick(scheduler: Jobs, clock: FakeClock) -> None:
    for n in range(3):
        scheduler.recurring(f"broken-{n}", "sync", every=60)
        damage(scheduler, f"broken-{n}", kind="lunar")
    scheduler.recurring("fine", "sync", every=61)
    clock.advance(61)
    fired = [len(scheduler.tick_recurring(limit=2)) for _ in range(2)]
    assert fired == [0, 1]


def test_a_schedule_that_is_mended_fires_what_was_pending(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", cron="0 * * * *")
    damage(scheduler, "s", payload="{")
    clock.advance(timedelta(hours=1))
    assert scheduler.tick_recurring() == []
    view = scheduler.recurring("s", "sync", cron="0 * * * *")
    assert (view.last_error, view.last_error_at) == (None, None)
    assert occurrences(scheduler.tick_recurring()) == [utc("2030-01-01 13:00")]


def test_a_schedule_that_was_set_aside_is_tried_again(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", cron="0 * * * *")
    damage(scheduler, "s", timezone="Mars/Olympus")
    clock.advance(timedelta(hours=1))
    scheduler.tick_recurring()
    damage(scheduler, "s", timezone="UTC")
    assert scheduler.tick_recurring() == []
    clock.advance(SET_ASIDE)
    assert occurrences(scheduler.tick_recurring()) == [utc("2030-01-01 13:00")]
    assert scheduler.schedules.get("s").last_error is None


def test_a_damaged_schedule_can_be_paused_resumed_and_deleted(scheduler: Jobs) -> None:
    scheduler.recurring("s", "sync", cron="0 * * * *")
    damage(scheduler, "s", cron="every day", payload="{", misfire="sometimes")
    assert scheduler.schedules.pause("s").paused
    resumed = scheduler.schedules.resume("s")
    assert (resumed.paused, resumed.payload_preview.available, resumed.upcoming()) == (False, False, [])
    scheduler.schedules.delete("s")
    assert count(scheduler, "schedules") == 0


# Lists and history


def test_the_history_of_a_schedule_is_its_jobs_newest_first(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", every=60)
    scheduler.recurring("other", "sync", every=60)
    for _ in range(5):
        clock.advance(60)
        scheduler.tick_recurring()
    scheduler.schedules.trigger("s")
    first = scheduler.fires("s", page_size=4)
    second = scheduler.fires("s", page_size=4, cursor=first.next_cursor)
    minutes = [job.occurrence_at.minute for page in (first, second) for job in page if job.occurrence_at]
    assert minutes == [5, 5, 4, 3, 2, 1]
    assert (len(first), first.previous_cursor, second.next_cursor) == (4, None, None)
    assert scheduler.fires("s", page_size=4, cursor=second.previous_cursor) == first


def test_the_history_of_a_schedule_that_is_gone_can_still_be_read(scheduler: Jobs, clock: FakeClock) -> None:
    for name in ("once", "once@", "once@2"):
        scheduler.recurring(name, "sync", at=clock.now())
    fired = {job.id for job in scheduler.tick_recurring()}
    found = [job.id for name in ("once", "once@", "once@2") for job in scheduler.fires(name)]
    assert (len(found), set(found)) == (3, fired)
    with pytest.raises(errors.UnknownSchedule):
        scheduler.fires("once@3")


def test_schedules_are_listed_by_name(scheduler: Jobs) -> None:
    names = ["Zebra", "alpha", "beta", "gamma", "ärger"]
    for name in reversed(names):
        scheduler.recurring(name, "sync", {"password": "hunter2", "n": 1}, every=60)
    first = scheduler.schedules.page(page_size=3)
    second = scheduler.schedules.page(page_size=3, cursor=first.next_cursor)
    assert [view.name for page in (first, second) for view in page] == names
    assert scheduler.schedules.page(page_size=3, cursor=second.previous_cursor) == first
    assert "hunter2" not in repr(first)


@pytest.mark.parametrize("cursor", ["", "nonsense", "W10", "\0", "é", "A" * 5000])
def test_a_page_of_schedules_or_fires_is_refused_for_a_forged_cursor(scheduler: Jobs, cursor: str) -> None:
    scheduler.recurring("s", "sync", every=60)
    with pytest.raises(errors.InvalidOption, match="cursor"):
        scheduler.schedules.page(cursor=cursor)
    with pytest.raises(errors.InvalidOption, match="cursor"):
        scheduler.fires("s", cursor=cursor)


def test_the_cursor_of_one_history_is_refused_by_another(scheduler: Jobs, clock: FakeClock) -> None:
    for name in ("a", "b"):
        scheduler.recurring(name, "sync", every=60, misfire="catch-up-limited")
    clock.advance(300)
    scheduler.tick_recurring()
    cursor = scheduler.fires("a", page_size=1).next_cursor
    with pytest.raises(errors.InvalidOption, match="cursor"):
        scheduler.fires("b", cursor=cursor)


def test_a_schedule_says_when_it_fires_next(scheduler: Jobs, clock: FakeClock) -> None:
    scheduler.recurring("s", "sync", every=60)
    clock.advance(75)
    upcoming = scheduler.schedules.get("s").upcoming(3)
    assert upcoming == [utc("2030-01-01 12:01"), utc("2030-01-01 12:02"), utc("2030-01-01 12:03")]


# Operators


def test_an_operators_commands_on_schedules_are_audited(scheduler: Jobs) -> None:
    scheduler.recurring("s", "sync", every=60)
    admin = scheduler.admin
    assert admin.pause_recurring("s", actor="ada", reason="too loud").paused
    assert admin.pause_recurring("s", actor="ada").paused
    assert not admin.resume_recurring("s", actor="bob").paused
    job = admin.trigger_recurring("s", actor="ada", reason="now")
    assert (job.schedule_id, job.status, job.principal) == (admin.get_recurring("s").id, "queued", "ada")
    assert admin.delete_recurring("s", actor="ada").name == "s"
    assert [(entry.action, entry.actor, entry.reason) for entry in admin.audit(target="s")] == [
        ("delete_recurring", "ada", None),
        ("trigger_recurring", "ada", "now"),
        ("resume_recurring", "bob", None),
        ("pause_recurring", "ada", "too loud"),
    ]
    assert len(admin.list_recurring()) == 0


@pytest.mark.parametrize("command", ["get", "pause", "resume", "trigger", "delete"])
def test_an_operators_command_on_an_unknown_schedule_is_not_audited(scheduler: Jobs, command: str) -> None:
    with pytest.raises(errors.UnknownSchedule, match="nobody"):
        getattr(scheduler.admin, f"{command}_recurring")("nobody")
    assert len(scheduler.admin.audit()) == 0


def test_an_operator_sees_schedules_without_their_secrets(jobs: Jobs) -> None:
    jobs.declare("report", queue="reports", redact=("customer",))
    jobs.recurring("s", "report", {"customer": "canary-1", "password": "canary-2", "n": 1}, cron="0 * * * *")
    [view] = jobs.admin.list_recurring()
    assert (view.name, view.kind, view.cron, view.timezone) == ("s", "cron", "0 * * * *", "UTC")
    assert (view.next_run_at, view.last_run_at, view.last_error) == (utc("2030-01-01 13:00"), None, None)
    assert (view.paused, view.misfire, view.job_name, view.queue) == (False, "run-once", "report", "reports")
    assert isinstance(view.payload_preview.value, dict)
    assert view.payload_preview.value["n"] == 1
    assert "canary" not in repr(view)


def test_the_coming_occurrences_of_a_paused_schedule_are_those_after_a_resume(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("sync")
    for name, timing in (("hourly", {"every": 3600}), ("cron", {"cron": "5 * * * *"})):
        jobs.recurring(name, "sync", **timing)
        jobs.admin.pause_recurring(name)
    clock.advance(10 * 86400)
    for name in ("hourly", "cron"):
        shown = jobs.admin.get_recurring(name).upcoming(3, clock.now())
        assert shown == jobs.admin.resume_recurring(name).upcoming(3)
        assert shown[0] > clock.now()
