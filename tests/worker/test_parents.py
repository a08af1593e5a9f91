"""Results of the jobs that a job has waited for, in every kind of runner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sloppyjobs import Jobs

Start = Callable[..., Any]


def extract(ctx: Any, payload: Any) -> Any:
    """A parent."""
    return {"rows": payload}


def load(ctx: Any, payload: Any) -> Any:
    """A child."""
    return [ctx.parents["extract"]["rows"], len(ctx.parents)]


async def load_async(ctx: Any, payload: Any) -> Any:
    """A child that is a coroutine."""
    return load(ctx, payload)


@pytest.mark.parametrize("isolation", ["thread", "async", "process"])
def test_a_handler_sees_the_results_of_its_parents(jobs: Jobs, start: Start, isolation: Any) -> None:
    jobs.define("extract", extract)
    jobs.define("load", load_async if isolation == "async" else load, isolation=isolation)
    child = jobs.enqueue("load", depends_on=jobs.enqueue("extract", 3))
    start(concurrency=2)
    assert jobs.wait(child.id, timeout=60).result == [3, 1]
