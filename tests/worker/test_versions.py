"""Payloads of older versions, in every kind of runner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sloppyjobs import Jobs, errors

Start = Callable[..., Any]


def charge(ctx: Any, payload: Any) -> Any:
    """The handler."""
    return payload


async def charge_async(ctx: Any, payload: Any) -> Any:
    """The same as a coroutine."""
    return payload


def renamed(old: Any) -> Any:
    """From version 1 to 2."""
    return {"amount": old["total"]}


def counted(old: Any) -> Any:
    """From version 2 to 3."""
    return {"cents": old["amount"] * 100}


@pytest.mark.parametrize("isolation", ["thread", "async", "process"])
def test_a_handler_gets_its_own_version(jobs: Jobs, start: Start, isolation: Any) -> None:
    jobs.define("charge", charge_async if isolation == "async" else charge, isolation=isolation, version=3)
    jobs.upcast("charge", 1)(renamed)
    jobs.upcast("charge", 2)(counted)
    old, new = jobs.enqueue("charge", {"total": 5}, version=1), jobs.enqueue("charge", {"cents": 7})
    start(concurrency=2)
    assert [jobs.wait(job.id, timeout=60).result for job in (old, new)] == [{"cents": 500}, {"cents": 7}]


@pytest.mark.parametrize("isolation", ["thread", "async", "process"])
def test_a_missing_link_is_dead_and_a_newer_payload_is_left(jobs: Jobs, start: Start, isolation: Any) -> None:
    later = Jobs(jobs.storage)
    later.declare("charge", version=4)
    newer = later.enqueue("charge", {"cents": 7})
    jobs.define("charge", charge_async if isolation == "async" else charge, isolation=isolation, version=3)
    broken = jobs.enqueue("charge", {"total": 5}, version=1)
    start(concurrency=2)
    dead = jobs.wait(broken.id, timeout=60)
    assert (dead.status, dead.error_code, dead.attempt_count) == ("dead", errors.UpcastFailed.code, 1)
    # It was enqueued first, so it was claimed first or in the same turn.
    assert jobs.get(newer.id).status in ("processing", "retrying", "queued")
