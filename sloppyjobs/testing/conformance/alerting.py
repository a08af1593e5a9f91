"""Alerts: once per cause and window whoever looks, delivered by a job of their own, never lost."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from threading import Barrier, Thread
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.alerting.evaluation import evaluate
from sloppyjobs.domain.alerts import Alert
from sloppyjobs.domain.retry import Retry
from sloppyjobs.internals import internals
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock

CANARY = "hunter2-in-an-alert"


class Told:
    """Whom alerts are delivered to."""

    def __init__(self) -> None:
        self.alerts: list[Alert] = []
        self.fails = 0

    def __call__(self, alert: Alert) -> None:
        if self.fails:
            self.fails -= 1
            raise ConnectionError(f"not now, password={CANARY}")
        self.alerts.append(alert)


def look(jobs: Jobs, owner: str | None = None) -> int:
    return evaluate(jobs.storage, jobs.alerts, jobs.definitions, internals(jobs).sealing, owner)


def dead(jobs: Jobs, number: int = 1, name: str = "work", queue: str = "orders", error: str = "no") -> None:
    if jobs.definitions.get(name) is None:
        jobs.declare(name, retry=Retry(max_attempts=1))
    for _ in range(number):
        job = jobs.enqueue(name, queue=queue)
        [claim] = jobs.claim("w", queues=(queue,), names=(name,))
        assert claim.id == job.id
        jobs.fail(claim, ValueError(error))


def deliver(jobs: Jobs) -> None:
    jobs.create_worker(queues=("none",), recurring=False).run_once()


def test_a_dead_job_is_told_once_per_cause_and_window(jobs: Jobs, clock: FakeClock) -> None:
    told = Told()
    jobs.declare_alert("dead-orders", on="dead", queue="orders", window=600, deliver=told)
    assert look(jobs) == 0
    dead(jobs, 2, error=f"no order, password={CANARY}")
    dead(jobs, queue="other")
    assert (look(jobs), look(jobs)) == (1, 0)
    dead(jobs)
    assert look(jobs) == 0
    dead(jobs, name="another")
    assert look(jobs) == 1
    deliver(jobs)
    assert [(one.rule, one.on, one.name, one.queue, one.count) for one in told.alerts] == [
        ("dead-orders", "dead", "work", "orders", 2),
        ("dead-orders", "dead", "another", "orders", 1),
    ]
    assert CANARY not in repr(told.alerts)
    clock.advance(600)
    assert look(jobs) == 0
    dead(jobs)
    assert look(jobs) == 1
    deliver(jobs)
    assert told.alerts[-1].count == 1
    assert len({(one.cause, one.window_start) for one in told.alerts}) == 3


@pytest.mark.parametrize("ahead", [0, 1, 299, 599])
def test_the_window_runs_from_the_last_alert(jobs: Jobs, clock: FakeClock, ahead: int) -> None:
    jobs.declare_alert("dead", on="dead", window=600, deliver=Told())
    clock.advance(ahead)
    assert look(jobs) == 0
    for _ in range(3):
        dead(jobs)
        assert look(jobs) == 1
        clock.advance(2)
        dead(jobs)
        assert look(jobs) == 0
        clock.advance(597)
        dead(jobs)
        assert look(jobs) == 0
        clock.advance(1)
        assert look(jobs) == 0, "what died within the window is told with it"
    starts = sorted(one.window_start for one in jobs.admin.list_alerts())
    assert [later - earlier for earlier, later in pairwise(starts)] == [timedelta(seconds=600)] * 2


def test_only_the_so_many_th_of_a_cause_is_told(jobs: Jobs, clock: FakeClock) -> None:
    told = Told()
    jobs.declare_alert("many", on="dead", after=3, window=60, deliver=told)
    dead(jobs, 2)
    assert look(jobs) == 0
    clock.advance(60)
    dead(jobs, 2)
    assert look(jobs) == 0
    dead(jobs, 1)
    assert look(jobs) == 1
    deliver(jobs)
    assert told.alerts[0].count == 3


def test_deaths_are_counted_in_the_whole_of_a_window_of_days(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare_alert("often", on="dead", after=4, window=timedelta(days=7), deliver=Told())
    assert look(jobs) == 0
    found = []
    for _ in range(5):
        dead(jobs)
        found.append(look(jobs))
        clock.advance(timedelta(days=1.5))
    assert found == [0, 0, 0, 1, 0]


def test_a_death_is_told_also_when_nobody_looked_in_its_window(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare_alert("dead", on="dead", window=60, deliver=Told())
    assert look(jobs) == 0
    dead(jobs)
    clock.advance(600)
    clock.advance(70)
    dead(jobs)
    clock.advance(70)
    assert (look(jobs), look(jobs)) == (1, 0), "one of them, whenever the others were missed"


def test_a_new_rule_does_not_tell_of_the_past(jobs: Jobs, clock: FakeClock) -> None:
    dead(jobs)
    clock.advance(600)
    jobs.declare_alert("dead", on="dead", window=60, deliver=Told())
    assert look(jobs) == 0
    dead(jobs)
    assert look(jobs) == 1


def test_a_queue_that_waits_is_told_in_each_window(jobs: Jobs, clock: FakeClock) -> None:
    told = Told()
    jobs.declare_alert("late", on="late", longer_than=120, window=600, deliver=told)
    jobs.declare("work")
    jobs.enqueue("work", queue="exports")
    jobs.enqueue("work", queue="held")
    jobs.admin.pause_queue("held")
    clock.advance(60)
    assert look(jobs) == 0
    clock.advance(61)
    assert (look(jobs), look(jobs)) == (1, 0)
    clock.advance(600)
    assert look(jobs) == 1
    deliver(jobs)
    assert [(one.queue, one.window_start) for one in told.alerts] == [
        ("exports", clock.now() - timedelta(seconds=600)),
        ("exports", clock.now()),
    ]


def test_a_worker_that_is_gone_is_told_once(jobs: Jobs, clock: FakeClock) -> None:
    told = Told()
    jobs.declare_alert("gone", on="stale-worker", window=60, deliver=told)
    jobs.storage.workers.register(jobs.create_worker(id="lost").info())
    assert look(jobs) == 0
    clock.advance(600)
    assert look(jobs) == 1
    clock.advance(600)
    assert look(jobs) == 0
    deliver(jobs)
    assert [one.worker for one in told.alerts] == ["lost"]


def test_a_schedule_whose_runs_die_or_that_is_late_is_told(jobs: Jobs, clock: FakeClock) -> None:
    told = Told()
    jobs.declare("nightly", retry=Retry(max_attempts=1))
    jobs.recurring("every-minute", "nightly", every=60)
    jobs.declare_alert("schedules", on="failing-schedule", after=2, window=86_400, deliver=told)
    for _ in range(2):
        assert look(jobs) == 0
        clock.advance(60)
        jobs.tick_recurring()
        jobs.fail(jobs.claim("w")[0], ValueError("no"))
    assert look(jobs) == 1
    jobs.recurring("other", "nightly", every=60)
    clock.advance(400)
    assert look(jobs) == 1
    deliver(jobs)
    assert sorted(one.name or "" for one in told.alerts) == ["every-minute", "other"]


def test_the_delivery_is_tried_again_and_its_history_says_so(jobs: Jobs, clock: FakeClock) -> None:
    told = Told()
    told.fails = 2
    jobs.declare_alert("dead", on="dead", deliver=told)
    dead(jobs)
    look(jobs)
    [pending] = jobs.admin.list_alerts()
    assert (pending.status, pending.tries, pending.told_at, pending.target) == ("pending", 0, None, "Told")
    for status in ("retrying", "retrying", "told"):
        deliver(jobs)
        [one] = jobs.admin.list_alerts()
        assert one.status == status
        assert CANARY not in repr(one)
        clock.advance(3_600)
    assert (one.tries, one.error, len(told.alerts)) == (3, None, 1)
    look(jobs)
    clock.advance(timedelta(days=10))
    jobs.admin.cleanup(ages={"succeeded": 0})
    clock.advance(timedelta(days=2))
    jobs.admin.purge()
    [kept] = jobs.admin.list_alerts()
    assert (kept.status, kept.tries, kept.told_at) == ("told", 3, one.told_at)
    clock.advance(timedelta(days=100))
    jobs.admin.purge()
    assert jobs.admin.list_alerts().items == ()


def test_a_delivery_that_gives_up_is_shown_and_can_be_retried(jobs: Jobs, clock: FakeClock) -> None:
    told = Told()
    told.fails = 10
    jobs.declare_alert("dead", on="dead", deliver=told)
    dead(jobs)
    look(jobs)
    for _ in range(10):
        deliver(jobs)
        clock.advance(3_600)
    look(jobs)
    [one] = jobs.admin.list_alerts()
    assert (one.status, one.tries) == ("failed", 10)
    assert CANARY not in repr(one)
    jobs.admin.retry(str(one.job_id))
    deliver(jobs)
    look(jobs)
    assert [alert.status for alert in jobs.admin.list_alerts("dead")] == ["told"]
    assert jobs.admin.list_alerts("other").items == ()


def test_alerts_have_pages(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare_alert("dead", on="dead", window=10, deliver=Told())
    for _ in range(5):
        dead(jobs)
        look(jobs)
        clock.advance(10)
    whole = [one.job_id for one in jobs.admin.list_alerts()]
    first = jobs.admin.list_alerts(page_size=2)
    second = jobs.admin.list_alerts(page_size=2, cursor=first.next_cursor)
    assert [one.job_id for one in (*first, *second)] == whole[:4]
    assert [one.job_id for one in jobs.admin.list_alerts(page_size=2, cursor=second.previous_cursor)] == whole[:2]


def test_rules_are_known_to_those_who_do_not_declare_them(jobs: Jobs, clock: FakeClock) -> None:
    told = Told()
    jobs.declare_alert("dead-orders", on="dead", queue="orders", after=3, window=60, deliver=told)
    look(jobs)
    stranger = Jobs(jobs.storage)
    [rule] = stranger.admin.list_alert_rules()
    assert (rule.name, rule.on, rule.queue, rule.after, rule.window) == ("dead-orders", "dead", "orders", 3, 60)
    assert (rule.declared, rule.open, rule.last_alert_at, rule.target) == (True, False, None, "Told")
    clock.advance(3_600)
    [rule] = stranger.admin.list_alert_rules()
    assert not rule.declared
    assert jobs.admin.list_alert_rules()[0].declared
    sent = stranger.admin.test_alert("dead-orders", actor="ada", reason="new channel")
    assert (sent.status, sent.test, sent.rule) == ("pending", True, "dead-orders")
    deliver(jobs)
    assert [(one.test, one.cause) for one in told.alerts] == [(True, "test")]
    assert stranger.admin.list_alerts()[0].status == "told"
    [entry] = jobs.admin.audit(target="dead-orders")
    assert (entry.action, entry.actor, entry.reason) == ("test_alert", "ada", "new channel")
    with pytest.raises(errors.UnknownAlert):
        stranger.admin.test_alert("other")


def test_a_rule_that_is_no_longer_declared_is_not_delivered(jobs: Jobs) -> None:
    old = Jobs(jobs.storage)
    old.declare_alert("gone", on="dead", deliver=Told())
    jobs.declare_alert("kept", on="dead", queue="none", deliver=Told())
    dead(old)
    assert look(old) == 1
    deliver(jobs)
    [one] = jobs.admin.list_alerts()
    assert one.status == "failed"
    assert "no longer declared" in (jobs.admin.events(str(one.job_id)).items[-1].message or "")


def test_many_who_look_at_once_raise_one(jobs: Jobs) -> None:
    _race(jobs)


def test_many_who_look_by_a_clock_that_goes_on_raise_one(live_jobs: Jobs) -> None:
    _race(live_jobs)


def _race(jobs: Jobs) -> None:
    told = Told()
    jobs.declare_alert("dead", on="dead", deliver=told)
    dead(jobs, 3)
    barrier, raised = Barrier(6), list[int]()

    def at_once() -> None:
        barrier.wait()
        raised.append(look(jobs))

    threads = [Thread(target=at_once) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(raised) == [0] * 5 + [1]
    deliver(jobs)
    assert len(told.alerts) == len(jobs.storage.inspection.alerts()) == 1


def test_one_worker_looks_for_all_of_them(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare_alert("dead", on="dead", deliver=Told())
    dead(jobs)
    assert [look(jobs, "one"), look(jobs, "two")] == [1, 0]
    dead(jobs, name="another")
    assert look(jobs, "two") == 0
    clock.advance(60)
    assert look(jobs, "two") == 1


def test_without_rules_nothing_is_asked_of_the_database(jobs: Jobs) -> None:
    dead(jobs)
    assert look(jobs) == 0
    assert jobs.admin.list_alert_rules() == ()
    assert jobs.create_worker(queues=("a",)).settings.queues == ("a",)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"on": "broken"}, "on"),
        ({"on": "dead", "after": 0}, "after"),
        ({"on": "dead", "window": -1}, "window"),
        ({"on": "dead", "window": 0}, "window"),
        ({"on": "dead", "deliver": None}, "deliver"),
        ({"on": "dead", "deliver": ""}, "deliver"),
        ({"on": "dead", "deliver": "mailto:ops@example.org"}, "deliver"),
        ({"on": "dead", "deliver": "http://hooks.example.org/x"}, "allow_http"),
        ({"on": "dead", "deliver": "https://u:p@hooks.example.org/x"}, "password"),
        ({"on": "dead", "longer_than": 5}, "longer_than"),
        ({"on": "late", "after": 2}, "after"),
        ({"on": "stale-worker", "queue": "q"}, "queue"),
        ({"on": "late", "name": "n"}, "name"),
        ({"on": "dead", "secret": ""}, "secret"),
        ({"on": "dead", "windwo": 5}, "windwo"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_by_name(jobs: Jobs, options: dict[str, Any], named: str) -> None:
    with pytest.raises(errors.InvalidOption, match=named):
        jobs.declare_alert("rule", **{"deliver": Told(), **options})
    assert len(jobs.alerts) == 0
    jobs.declare_alert("rule", on="dead", deliver=Told())
    with pytest.raises(errors.DuplicateJob):
        jobs.declare_alert("rule", on="dead", deliver=Told())
