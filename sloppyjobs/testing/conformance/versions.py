"""Payload versions: what was written by older code is upcast before the handler, and what is newer is left alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing import drain
from sloppyjobs.testing.conformance.records import count


def _newer(jobs: Jobs, version: int = 3, *, upcasts: bool = True, **settings: Any) -> tuple[Jobs, list[Any]]:
    """The same database, as a later release of the application has it, and what its handler was given."""
    made, seen = Jobs(jobs.storage), list[Any]()
    made.define("invoice", lambda _ctx, payload: seen.append(payload), version=version, **settings)
    if upcasts:
        made.upcast("invoice", 1)(lambda old: {"amount": old["total"], "currency": "EUR"})
        made.upcast("invoice", 2)(lambda old: {**old, "cents": old["amount"] * 100})
    return made, seen


def test_a_job_has_the_version_of_its_definition(jobs: Jobs) -> None:
    jobs.declare("invoice", version=3)
    jobs.declare("plain")
    new, old, plain = (
        jobs.enqueue("invoice", {}),
        jobs.enqueue("invoice", {}, version=2),
        jobs.enqueue("plain"),
    )
    many = jobs.enqueue_many([("invoice", {}), ("invoice", {}, {"version": 1}), ("invoice", {}, {"version": 3})])
    assert [job.payload_version for job in (new, old, plain, *many)] == [3, 2, None, 3, None, 3]
    assert [jobs.get(job.id).payload_version for job in (new, old, plain)] == [3, 2, None]
    assert jobs.admin.get_job(old.id).payload_version == 2
    assert {claim.id: claim.job.payload_version for claim in jobs.claim("w", limit=9)}[old.id] == 2


def test_payloads_of_older_versions_are_upcast_in_a_chain(jobs: Jobs) -> None:
    jobs.declare("invoice")
    jobs.enqueue("invoice", {"total": 5})
    later, seen = _newer(jobs)
    later.enqueue("invoice", {"amount": 6, "currency": "USD"}, version=2)
    later.enqueue("invoice", {"cents": 700})
    assert drain(later) == 3
    assert seen == [
        {"amount": 5, "currency": "EUR", "cents": 500},
        {"amount": 6, "currency": "USD", "cents": 600},
        {"cents": 700},
    ]


@pytest.mark.parametrize("how", ["missing", "raises", "none", "schema", "not json"])
def test_a_payload_that_cannot_be_upcast_is_dead_at_once(jobs: Jobs, how: str) -> None:
    jobs.declare("invoice")
    job = jobs.enqueue("invoice", {"total": "five"}, max_attempts=5)
    later, seen = _newer(jobs, 2, upcasts=False, input=dict[str, int] if how == "schema" else None)
    answers: dict[str, Any] = {
        "raises": lambda old: {"amount": old["amount"]},
        "none": lambda old: old.update(amount=1),
        "schema": lambda old: {"amount": old["total"]},
        "not json": lambda _old: {"amount": {1, 2}},
    }
    if how in answers:
        later.upcast("invoice", 1)(answers[how])
    assert drain(later) == 1
    found = jobs.get(job.id)
    assert (found.status, found.attempt_count, found.error_code) == ("dead", 1, errors.UpcastFailed.code)
    assert seen == []
    assert "could not be upcast" in jobs.admin.explain(job.id).reasons[0].text


def test_a_dead_job_runs_when_its_upcast_is_there(jobs: Jobs) -> None:
    jobs.declare("invoice")
    job = jobs.enqueue("invoice", {"total": 5})
    later, _ = _newer(jobs, upcasts=False)
    drain(later)
    assert jobs.get(job.id).status == "dead"
    whole, seen = _newer(jobs)
    whole.admin.retry(job.id)
    drain(whole)
    assert (jobs.get(job.id).status, seen) == ("succeeded", [{"amount": 5, "currency": "EUR", "cents": 500}])


def test_older_code_leaves_newer_payloads_to_others(jobs: Jobs, clock: FakeClock) -> None:
    later, seen = _newer(jobs)
    job = later.enqueue("invoice", {"cents": 700}, max_attempts=1)
    jobs.define("invoice", lambda _ctx, _payload: pytest.fail("it was run by code that does not know it"), version=2)
    assert drain(jobs) == 1
    left = jobs.get(job.id)
    assert (left.status, left.error_code) == ("retrying", errors.PayloadNewer.code)
    assert left.run_at == clock.now() + timedelta(seconds=5)
    assert (left.attempt_count, left.max_attempts) == (1, 2), "the attempt does not count"
    assert [one.status for one in jobs.admin.attempts(job.id)] == ["released"]
    reasons = {reason.code: reason.text for reason in jobs.admin.explain(job.id).reasons}
    assert "version 3" in reasons["payload_newer"]
    clock.advance(5)
    assert drain(jobs) == 1
    assert jobs.get(job.id).run_at == clock.now() + timedelta(seconds=10), "it is left alone for longer each time"
    clock.advance(10)
    assert drain(later) == 1
    assert (jobs.get(job.id).status, seen) == ("succeeded", [{"cents": 700}])


def test_a_schedule_has_the_version_that_its_payload_was_written_as(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("invoice")
    jobs.recurring("monthly", "invoice", {"total": 5}, every=600)
    later, seen = _newer(jobs)
    clock.advance(600)
    drain(later)
    assert seen == [{"amount": 5, "currency": "EUR", "cents": 500}]
    later.recurring("monthly", "invoice", {"cents": 1}, every=600)
    clock.advance(600)
    drain(later)
    assert seen[1:] == [{"cents": 1}]
    assert later.schedules.trigger("monthly").payload_version == 3


REFUSED: dict[str, Any] = {"zero": 0, "negative": -1, "a boolean": True, "text": "2", "half": 1.5}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_version_is_refused(jobs: Jobs, what: str) -> None:
    jobs.declare("invoice", version=2)
    for call in (
        lambda: jobs.enqueue("invoice", version=REFUSED[what]),
        lambda: jobs.enqueue_many([("invoice", 1), ("invoice", 2, {"version": REFUSED[what]})]),
        lambda: jobs.declare("other", version=REFUSED[what]),
        lambda: jobs.upcast("invoice", REFUSED[what])(lambda old: old),
    ):
        with pytest.raises(errors.InvalidOption, match="version"):
            call()
    assert count(jobs) == 0


def test_a_version_that_the_definition_does_not_have_is_refused(jobs: Jobs) -> None:
    jobs.declare("invoice", version=2)
    with pytest.raises(errors.InvalidOption, match="from 1 to 2"):
        jobs.enqueue("invoice", version=3)
    assert count(jobs) == 0


def test_an_older_payload_that_does_not_fit_after_its_upcasts_is_refused(jobs: Jobs) -> None:
    later, _ = _newer(jobs, 2, upcasts=False, input=dict[str, int])
    later.enqueue("invoice", {"total": "five"}, version=1)
    later.upcast("invoice", 1)(lambda old: {"amount": old["total"]})
    with pytest.raises(errors.InvalidPayload):
        later.enqueue("invoice", {"total": "five"}, version=1)
    with pytest.raises(errors.UpcastFailed):
        later.enqueue("invoice", {}, version=1)
    assert count(jobs) == 1


def test_an_older_payload_runs_in_the_partition_that_the_definition_names(jobs: Jobs) -> None:
    jobs.declare("charge", version=2, resource="api", partition="tenant")
    with pytest.raises(errors.InvalidOption, match="partition"):
        jobs.enqueue("charge", {"customer": "ada"}, version=1)
    assert jobs.enqueue("charge", {"customer": "ada"}, version=1, partition="grace").partition_key == "grace"
    jobs.upcast("charge", 1)(lambda old: {"tenant": old["customer"]})
    written = jobs.enqueue_many([("charge", {"customer": "ada"}, {"version": 1}), ("charge", {"tenant": "ada"})])
    assert [(job.partition_key, job.payload_version) for job in written] == [("ada", None), ("ada", 2)]
    jobs.declare("plain", version=2)
    with pytest.raises(errors.InvalidOption, match="pass resource"):
        jobs.enqueue("plain", version=1, partition="ada")
