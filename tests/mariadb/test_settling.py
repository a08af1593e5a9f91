"""Successes that are alike are settled without reading their rows first; the fence holds all the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sloppyjobs import Jobs
from sloppyjobs.domain.model import Claim, Settlement
from sloppyjobs.domain.states import Failed, Failure, Outcome, Status, Succeeded, decide
from sloppyjobs.storage.dialects.mariadb.operations import MANY_ALIKE
from sloppyjobs.storage.jobs.settle import Settle

NUMBER = MANY_ALIKE + 8


def _claimed(jobs: Jobs, number: int = NUMBER) -> list[Claim]:
    jobs.enqueue_many([("greet", n) for n in range(number)])
    return jobs.claim("w1", limit=number)


def _settlement(claim: Claim, outcome: Outcome, seconds: float = 0.5) -> Settlement:
    job, decision = claim.job, decide(claim.attempt, claim.job.max_attempts, outcome)
    lane = (job.queue, job.name)
    return Settlement(claim.id, claim.attempt, claim.worker_id, decision, seconds, job.batch_id, claim.followups, lane)


def _successes(claims: Sequence[Claim]) -> list[Settlement]:
    return [_settlement(claim, Succeeded(None), n / 64) for n, claim in enumerate(claims)]


def _statuses(jobs: Jobs, claims: Sequence[Claim]) -> list[str]:
    return [jobs.get(claim.id).status.value for claim in claims]


def test_rows_are_not_read_before_they_are_settled(jobs: Jobs, sent: list[str]) -> None:
    claims = _claimed(jobs)
    sent.clear()
    assert jobs.storage.settle(_successes(claims)) == {claim.id for claim in claims}
    assert not [sql for sql in sent if sql.startswith("SELECT") and "sloppy_jobs" in sql]


def test_every_job_has_its_whole_history_and_is_counted(jobs: Jobs) -> None:
    claims = _claimed(jobs)
    jobs.storage.settle(_successes(claims))
    for number, claim in enumerate(claims):
        job, [attempt] = jobs.get(claim.id), jobs.admin.attempts(claim.id)
        assert (job.status, job.locked_by, job.finished_at) == (Status.SUCCEEDED, None, attempt.finished_at)
        assert (attempt.status.value, attempt.duration) == ("succeeded", number / 64)
        assert [event.event_type for event in jobs.admin.events(claim.id)] == ["created", "claimed", "succeeded"]
    total = jobs.admin.stats(minutes=5, queue="default", name="greet").total
    assert total.succeeded == NUMBER


def test_of_many_the_stale_one_alone_is_refused(jobs: Jobs) -> None:
    claims = _claimed(jobs)
    jobs.fail(claims[3], "elsewhere")
    accepted = jobs.storage.settle(_successes(claims))
    assert accepted == {claim.id for claim in claims} - {claims[3].id}
    assert _statuses(jobs, claims).count("succeeded") == NUMBER - 1
    assert len(jobs.admin.events(claims[0].id)) == 3
    assert jobs.admin.stats(minutes=5).total.succeeded == NUMBER - 1


def test_what_came_to_hang_on_a_job_while_it_ran_is_seen_to(jobs: Jobs) -> None:
    claims = _claimed(jobs)
    child = jobs.enqueue("count", depends_on=[claims[7].id])
    assert jobs.get(child.id).status is Status.WAITING
    assert len(jobs.storage.settle(_successes(claims))) == NUMBER
    assert jobs.get(child.id).status is Status.QUEUED


def test_other_outcomes_among_them_are_settled_too(jobs: Jobs) -> None:
    claims = _claimed(jobs)
    mixed = _successes(claims)
    mixed[2] = _settlement(claims[2], Succeeded('"a result"'))
    mixed[5] = _settlement(claims[5], Failed(Failure("Error", "no"), 60.0, retryable=True))
    assert jobs.storage.settle(mixed) == {claim.id for claim in claims}
    statuses = _statuses(jobs, claims)
    assert (statuses.count("succeeded"), statuses[5]) == (NUMBER - 1, "retrying")
    assert jobs.get(claims[2].id).result == "a result"


def test_of_two_outcomes_of_one_attempt_the_first_counts(jobs: Jobs) -> None:
    claims = _claimed(jobs)
    twice = _successes([*claims, claims[0]])
    assert jobs.storage.settle(twice) == {claim.id for claim in claims}
    assert len(jobs.admin.events(claims[0].id)) == 3


def test_what_was_settled_before_the_rest_failed_is_not_stale_when_it_comes_again(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = _claimed(jobs)
    mixed = [*_successes(claims[1:]), _settlement(claims[0], Failed(Failure("Error", "no"), 60.0, retryable=True))]

    def failing(_self: Settle, _settlements: Sequence[Settlement]) -> set[str]:
        raise RuntimeError("the rest")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(Settle, "settle", failing)
        jobs.storage.settle(mixed)
    assert _statuses(jobs, claims).count("succeeded") == NUMBER - 1
    assert jobs.storage.settle(mixed) == {claim.id for claim in claims}
    assert len(jobs.admin.events(claims[1].id)) == 3
