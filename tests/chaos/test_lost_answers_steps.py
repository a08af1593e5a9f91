"""Steps and signals while answers to COMMIT are lost: what was written is recognised, nothing lost or doubled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from proxy import FaultyProxy

from sloppyjobs import Jobs, storage
from sloppyjobs.domain.model import Claim
from sloppyjobs.domain.states import Suspended
from sloppyjobs.domain.steps import Answer, StepKind, StepState
from sloppyjobs.testing.conformance.outcomes import decided

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def jobs(proxied_url: str) -> Iterator[Jobs]:
    """Through the proxy."""
    made = Jobs(storage.postgres(proxied_url))
    made.declare("greet")
    yield made
    made.storage.close()


@pytest.fixture
def claim(jobs: Jobs) -> Claim:
    """A job in the hands of a worker."""
    jobs.enqueue("greet")
    [held] = jobs.claim("w1")
    return held


def _ask(jobs: Jobs, claim: Claim) -> Answer | None:
    return jobs.storage.steps.ask("w1", (claim.id, claim.attempt), StepKind.SIGNAL, "approved", 600, 1)


def test_a_step_is_kept_once(proxy: FaultyProxy, jobs: Jobs, claim: Claim) -> None:
    proxy.drop_answer_to("COMMIT")
    assert jobs.storage.steps.keep("w1", (claim.id, 1), "charge", '"done"', 0.1, 1)
    assert proxy.answers_dropped == 1
    assert [(one.name, one.result) for one in jobs.storage.steps.known(claim.id)] == [("charge", '"done"')]


def test_an_early_signal_is_accepted_once(proxy: FaultyProxy, jobs: Jobs, claim: Claim) -> None:
    proxy.drop_answer_to("COMMIT")
    assert jobs.signal(claim.id, "approved", 1)
    assert proxy.answers_dropped == 1
    assert not jobs.signal(claim.id, "approved", 2)
    assert _ask(jobs, claim) == Answer(StepState.DONE, "1")


def test_a_wait_and_a_signal_that_wakes(proxy: FaultyProxy, jobs: Jobs, claim: Claim) -> None:
    proxy.drop_answer_to("COMMIT")
    begun = _ask(jobs, claim)
    assert begun is not None
    assert begun.state is StepState.WAITING
    jobs.storage.settle([decided(claim, Suspended(600.0, "waits"))])
    proxy.drop_answer_to("COMMIT")
    assert jobs.admin.signal(claim.id, "approved", 1, actor="ada")
    assert proxy.answers_dropped == 2
    assert jobs.get(claim.id).status == "queued"
    assert len(jobs.admin.audit(claim.id)) == 1
    assert [event.event_type for event in jobs.admin.events(claim.id)].count("woken") == 1
