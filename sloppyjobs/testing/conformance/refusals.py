"""Bad input is refused before anything is written, with the same error on every database."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.retry import Retry
from sloppyjobs.errors import InvalidOption, InvalidPayload
from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.conformance.records import count

_inside_itself: list[Any] = []
_inside_itself.append(_inside_itself)


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


PAYLOADS = {
    "NaN": float("nan"),
    "infinity": {"a": [float("-inf")]},
    "NUL": "a\0b",
    "NUL in a key": {"a\0b": 1},
    "a lone surrogate": {"text": "\ud83d"},
    "an object": object(),
    "bytes": b"bytes",
    "a set": {1, 2},
    "a key that is no text": {1: "one"},
    "a number beyond 64 bits": 2**63,
    "deep nesting": _deep(5_000),
    "a value inside itself": _inside_itself,
    "too many bytes": "x" * 1_048_576,
    "too many bytes in parts": ["x" * 1_000] * 2_000,
    "too many bytes when encoded": "é" * 600_000,
}

OPTIONS: dict[str, dict[str, Any]] = {
    "every queue": {"queue": "*"},
    "an empty queue": {"queue": ""},
    "a blank queue": {"queue": " \t\n"},
    "a queue that is no text": {"queue": 5},
    "a long queue": {"queue": "q" * 129},
    "a queue with NUL": {"queue": "a\0b"},
    "an empty key": {"idempotency_key": ""},
    "a blank key": {"idempotency_key": "   "},
    "an invisible key": {"idempotency_key": "\u200b\u2060\ufeff"},
    "a key of a NUL": {"idempotency_key": "\0"},
    "a key with NUL": {"idempotency_key": "a\0b"},
    "a key with a lone surrogate": {"idempotency_key": "a\udc00"},
    "a long key": {"idempotency_key": "k" * 256},
    "a key that is no text": {"idempotency_key": 7},
    "an empty correlation id": {"correlation_id": ""},
    "an empty principal": {"principal": ""},
    "a negative delay": {"delay": -1},
    "a negative timedelta": {"delay": timedelta(seconds=-1)},
    "a delay that is no number": {"delay": "soon"},
    "a delay of NaN": {"delay": float("nan")},
    "an infinite delay": {"delay": float("inf")},
    "an endless delay": {"delay": 10**400},
    "an endless timedelta": {"delay": timedelta.max},
    "a time without a zone": {"run_at": datetime(2030, 1, 1)},  # noqa: DTZ001
    "a text without a zone": {"run_at": "2030-01-01T00:00:00"},
    "a text that is no time": {"run_at": "tomorrow"},
    "a number for a time": {"run_at": 1_900_000_000},
    "the beginning of time": {"run_at": "0001-01-01T00:00:00+05:00"},
    "the end of time": {"run_at": "9999-12-31T23:59:59-05:00"},
    "a delay and a time": {"delay": 1, "run_at": "2030-01-01T00:00:00Z"},
    "no attempts": {"max_attempts": 0},
    "a truth for attempts": {"max_attempts": True},
    "text for attempts": {"max_attempts": "3"},
    "a fraction for a priority": {"priority": 1.5},
    "a priority beyond 32 bits": {"priority": 2**31},
    "a timeout of zero": {"timeout": 0},
    "a negative timeout": {"timeout": -1},
    "text for a policy": {"retry": "often"},
    "a callable backoff": {"retry": Retry(backoff=lambda attempt: attempt)},
    "metadata that is no mapping": {"metadata": ["team"]},
}

METADATA = {
    "NaN": {"a": float("nan")},
    "a key that is no text": {1: 2},
    "too many bytes": {"a": "x" * 70_000},
}


def _nothing_was_written(jobs: Jobs) -> bool:
    return not any(count(jobs, what) for what in ("jobs", "events", "queues"))


def test_a_payload_that_is_not_json_or_too_large_is_refused(jobs: Jobs) -> None:
    jobs.declare("greet")
    for what, payload in PAYLOADS.items():
        with pytest.raises(InvalidPayload, match="payload"):
            pytest.fail(f"{what} was taken: {jobs.enqueue('greet', payload)}")
        with pytest.raises(InvalidPayload, match=r"items\[1\]"):
            pytest.fail(f"{what} was taken: {jobs.enqueue_many([('greet', 1), ('greet', payload)])}")
    assert _nothing_was_written(jobs)


def test_an_option_that_cannot_work_is_refused(jobs: Jobs) -> None:
    jobs.declare("greet")
    for what, options in OPTIONS.items():
        with pytest.raises(InvalidOption):
            pytest.fail(f"{what} was taken: {jobs.enqueue('greet', 1, **options)}")
        with pytest.raises(InvalidOption, match=r"items\[1\]"):
            pytest.fail(f"{what} was taken: {jobs.enqueue_many([('greet', 1), ('greet', 1, cast(Any, options))])}")
    assert _nothing_was_written(jobs)


def test_metadata_that_is_not_json_or_too_large_is_refused(jobs: Jobs) -> None:
    jobs.declare("greet")
    for what, metadata in METADATA.items():
        with pytest.raises(InvalidPayload, match="metadata"):
            pytest.fail(f"{what} was taken: {jobs.enqueue('greet', metadata=metadata)}")  # type: ignore[arg-type]
    assert _nothing_was_written(jobs)


def test_an_unknown_name_is_refused_and_the_known_ones_are_named(jobs: Jobs) -> None:
    jobs.declare("greet")
    for name in ("gone", "", "Greet", "greet\0", "\ud800", "x" * 1_000, None, 5, ["greet"]):
        with pytest.raises(errors.UnknownJob, match="greet"):
            jobs.enqueue(name)  # type: ignore[arg-type]
    assert _nothing_was_written(jobs)


def test_an_unknown_option_is_refused(jobs: Jobs) -> None:
    jobs.declare("greet")
    with pytest.raises(errors.InvalidOption, match="Did you mean 'priority'"):
        jobs.enqueue("greet", {}, prioritty=3)  # type: ignore[call-arg]
    assert _nothing_was_written(jobs)


def test_the_limit_of_a_payload_can_be_set(jobs: Jobs) -> None:
    small = Jobs(jobs.storage, payload_limit=10)
    small.declare("greet")
    small.enqueue("greet", "12345678")
    with pytest.raises(InvalidPayload, match="the limit is 10"):
        small.enqueue("greet", "123456789")


def test_a_payload_just_below_the_limit_is_taken(jobs: Jobs) -> None:
    jobs.declare("greet")
    payload = "x" * (1_048_576 - 2)
    jobs.enqueue("greet", payload)
    jobs.enqueue_many([("greet", payload)] * 2)
    assert [claim.payload for claim in jobs.claim("w1", limit=10)] == [payload] * 3


def test_a_claim_that_cannot_work_is_refused(jobs: Jobs) -> None:
    jobs.declare("greet")
    jobs.enqueue("greet")
    refused: list[dict[str, Any]] = [
        {"worker_id": ""},
        {"worker_id": "w" * 129},
        {"queues": "default"},
        {"queues": ()},
        {"queues": [""]},
        {"names": "greet"},
        {"names": []},
        {"limit": 0},
        {"limit": 501},
        {"lease": 0},
        {"lease": float("nan")},
    ]
    for given in refused:
        with pytest.raises(InvalidOption):
            pytest.fail(f"{given} was taken: {jobs.claim(**{'worker_id': 'w1', **given})}")
    assert len(jobs.claim("w1")) == 1
