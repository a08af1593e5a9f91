"""The values that pass between the layers: frozen, and able to travel."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.domain.retry import Retry
from sloppyjobs.domain.states import Status
from sloppyjobs.errors import InvalidOption

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
INSTANTS = st.datetimes(timezones=st.just(UTC))


def job(**values: Any) -> Job:
    given = {"id": "job_1", "name": "say", "queue": "default", "status": Status.PROCESSING, "priority": 0}
    times = {"run_at": NOW, "created_at": NOW, "updated_at": NOW}
    return Job(**{**given, **times, "attempt_count": 1, "max_attempts": 3, **values})


def claim(**values: Any) -> Claim:
    given = {"job": job(), "attempt": 1, "worker_id": "w1", "locked_until": NOW, "payload_json": "{}"}
    return Claim(**{**given, **values})


@given(JSON, st.dictionaries(st.text(), JSON, max_size=3), INSTANTS, st.text())
def test_a_claim_survives_json(payload: Any, metadata: dict[str, Any], until: datetime, worker: str) -> None:
    written = msgspec.json.encode(payload).decode()
    one = claim(
        job=job(metadata=metadata, locked_until=until), locked_until=until, worker_id=worker, payload_json=written
    )
    restored = Claim.from_json(one.to_json())
    assert restored == one
    assert (restored.payload, restored.id, restored.job.status) == (payload, "job_1", Status.PROCESSING)


def test_a_claim_carries_the_policy_that_was_stored() -> None:
    policy = Retry(max_attempts=9, backoff="fixed", initial=7)
    assert claim(retry_json=policy.to_json()).retry == policy
    assert claim().retry == Retry()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"job": {}}', "{broken", '{"job": null, "attempt": "1"}'])
def test_what_is_no_claim_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="no claim"):
        Claim.from_json(text)


def test_values_are_frozen() -> None:
    for value, name in itertools.product((job(), claim()), ("id", "job")):
        with pytest.raises((AttributeError, TypeError)):
            setattr(value, name, "other")


def test_a_job_never_carries_its_payload() -> None:
    assert not {"payload", "payload_json"} & set(Job.__struct_fields__)
