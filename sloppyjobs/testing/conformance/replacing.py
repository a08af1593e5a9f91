"""``jobs.replace``: exactly the job that is named ends by it, whoever has which business key by then."""

from __future__ import annotations

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.retry import Retry
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock

KEY = "account:42"


def test_a_replacement_takes_no_other_job_s_key(jobs: Jobs) -> None:
    jobs.declare("sync")
    named, other = (jobs.enqueue("sync", business_key=key) for key in ("a", "b"))
    for chosen in ({}, {"on_conflict": "replace"}, {"on_conflict": "reject"}):
        with pytest.raises(errors.KeyConflict) as refused:
            jobs.replace(named, {"n": 2}, business_key="b", **chosen)  # type: ignore[arg-type]
        assert refused.value.job_id == other.id
    assert jobs.replace(named, {"n": 2}, business_key="b", on_conflict="return").id == other.id
    assert {jobs.get(job.id).status for job in (named, other)} == {"queued"}
    new = jobs.replace(named, {"n": 2}, business_key="c")
    assert (jobs.get(named.id).superseded_by, jobs.get(other.id).status) == (new.id, "queued")
    assert not jobs.enqueue("sync", business_key="a").existing


def test_a_job_that_gave_its_key_up_is_replaced_beside_the_one_that_has_it(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("sync", retry=Retry(backoff="fixed", initial=60, jitter=False))
    tried = jobs.enqueue("sync", business_key=KEY, unique="pending")
    [claim] = jobs.claim("worker-1")
    waiting = jobs.enqueue("sync", business_key=KEY, unique="pending")
    jobs.fail(claim, ConnectionError("no"))
    with pytest.raises(errors.KeyConflict) as refused:
        jobs.replace(tried, unique="pending")
    assert (refused.value.job_id, jobs.get(tried.id).status) == (waiting.id, "retrying")
    jobs.admin.cancel(waiting.id)
    new = jobs.replace(tried, unique="pending")
    assert (new.business_key, new.supersedes, jobs.get(tried.id).superseded_by) == (KEY, tried.id, new.id)


@pytest.mark.parametrize("on_conflict", ["return", "reject", "replace"])
def test_a_job_never_stands_in_the_way_of_its_own_replacement(jobs: Jobs, on_conflict: str) -> None:
    jobs.declare("sync")
    old = jobs.enqueue("sync", {"n": 1}, business_key=KEY)
    new = jobs.replace(old, {"n": 2}, on_conflict=on_conflict)  # type: ignore[arg-type]
    assert (new.existing, new.supersedes, jobs.get(old.id).superseded_by) == (False, old.id, new.id)
    assert jobs.enqueue("sync", business_key=KEY).id == new.id


def test_a_replacement_without_tags_stays_without_tags(jobs: Jobs) -> None:
    jobs.declare("sync", tags=("billing",))
    assert jobs.replace(jobs.enqueue("sync", tags=())).tags == ()
    assert jobs.replace(jobs.enqueue("sync", tags=("eu",))).tags == ("eu",)
    assert jobs.replace(jobs.enqueue("sync", tags=("eu",)), tags=("us",)).tags == ("us",)
