"""Rules for alerts that are muted: what they find is written down, and nobody is told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sloppyjobs import errors
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance import alerting as scene
from sloppyjobs.testing.conformance.records import count


def test_a_muted_rule_writes_down_what_it_finds_and_tells_nobody(jobs: Jobs, clock: FakeClock) -> None:
    told = scene.Told()
    jobs.declare_alert("dead", on="dead", window=600, deliver=told)
    scene.look(jobs)
    rule = jobs.admin.mute_alert("dead", actor="ada", reason="moving house")
    assert (rule.muted, rule.muted_until, rule.muted_by, rule.mute_reason) == (True, None, "ada", "moving house")
    scene.dead(jobs)
    before = count(jobs)
    assert (scene.look(jobs), scene.look(jobs)) == (1, 0), "once per cause and window, as ever"
    assert count(jobs) == before, "no job delivers it"
    [one] = jobs.admin.list_alerts()
    assert (one.status, one.job_id, one.tries, one.told_at, one.count) == ("muted", None, 0, None, 1)
    scene.deliver(jobs)
    assert told.alerts == []
    clock.advance(600)
    scene.dead(jobs)
    assert scene.look(jobs) == 1
    assert [one.status for one in jobs.admin.list_alerts("dead")] == ["muted", "muted"]
    [entry] = jobs.admin.audit(action="mute_alert").items
    assert (entry.target, entry.actor, entry.reason) == ("dead", "ada", "moving house")


def test_what_is_still_so_is_told_when_a_rule_is_unmuted(jobs: Jobs, clock: FakeClock) -> None:
    told = scene.Told()
    jobs.declare_alert("dead", on="dead", window=600, deliver=told)
    scene.look(jobs)
    jobs.admin.mute_alert("dead")
    scene.dead(jobs)
    scene.look(jobs)
    clock.advance(60)
    assert not jobs.admin.unmute_alert("dead", actor="eve").muted
    assert (scene.look(jobs), scene.look(jobs)) == (1, 0)
    scene.deliver(jobs)
    assert [one.count for one in told.alerts] == [1]
    assert [one.status for one in jobs.admin.list_alerts()] == ["told", "muted"]
    assert [entry.actor for entry in jobs.admin.audit(action="unmute_alert")] == ["eve"]
    jobs.admin.unmute_alert("dead")
    assert len(jobs.admin.audit(action="unmute_alert").items) == 1, "what changes nothing is not audited"


def test_a_mute_ends_by_itself(jobs: Jobs, clock: FakeClock) -> None:
    told = scene.Told()
    jobs.declare_alert("dead", on="dead", window=60, deliver=told)
    scene.look(jobs)
    end = clock.now() + timedelta(hours=1)
    assert jobs.admin.mute_alert("dead", end).muted_until == end
    scene.dead(jobs)
    scene.look(jobs)
    clock.advance(3_600)
    [rule] = jobs.admin.list_alert_rules()
    assert (rule.muted, rule.muted_until, rule.muted_by, rule.mute_reason) == (False, None, None, None)
    scene.dead(jobs)
    assert scene.look(jobs) == 1
    scene.deliver(jobs)
    assert len(told.alerts) == 1


def test_what_was_raised_before_is_delivered_and_a_test_is_told(jobs: Jobs) -> None:
    told = scene.Told()
    jobs.declare_alert("dead", on="dead", deliver=told)
    scene.look(jobs)
    scene.dead(jobs)
    scene.look(jobs)
    jobs.admin.mute_alert("dead")
    assert jobs.admin.test_alert("dead").status == "pending"
    scene.deliver(jobs)
    assert [one.test for one in told.alerts] == [False, True]


def test_a_worker_that_starts_anew_leaves_a_rule_muted(jobs: Jobs) -> None:
    jobs.declare_alert("dead", on="dead", deliver=scene.Told())
    scene.look(jobs)
    jobs.admin.mute_alert("dead", actor="ada")
    again = Jobs(jobs.storage)
    again.declare_alert("dead", on="dead", after=2, deliver=scene.Told())
    scene.look(again)
    [rule] = again.admin.list_alert_rules()
    assert (rule.muted, rule.muted_by, rule.after) == (True, "ada", 2)


def test_mutes_that_make_no_sense_are_refused(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare_alert("dead", on="dead", deliver=scene.Told())
    scene.look(jobs)
    for refused in (clock.now(), clock.now().isoformat(), "soon", 5):
        with pytest.raises(errors.InvalidOption, match="until"):
            jobs.admin.mute_alert("dead", refused)  # type: ignore[arg-type]
    for command in (jobs.admin.mute_alert, jobs.admin.unmute_alert):
        with pytest.raises(errors.UnknownAlert, match="'other'"):
            command("other")
    assert not jobs.admin.list_alert_rules()[0].muted
    assert not jobs.admin.audit().items
