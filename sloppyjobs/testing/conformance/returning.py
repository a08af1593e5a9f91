"""Running: what a handler returns that is work rather than a result, and that nobody would do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from sloppyjobs.domain.retry import NO_RETRY
from sloppyjobs.jobs import Jobs


async def _work() -> int:
    return 1


async def _numbers() -> AsyncIterator[int]:
    yield 1


class _Later:
    def __await__(self) -> Iterator[None]:
        yield


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        (_work, "a coroutine, of which nothing was run"),
        (lambda: (number for number in range(3)), "a generator, of which nothing was run"),
        (_numbers, "an async_generator, of which nothing was run"),
        (_Later, "a _Later, for which nobody waits"),
    ],
    ids=["a coroutine", "a generator", "an asynchronous generator", "something to await"],
)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["a function", "a coroutine function"])
def test_a_handler_that_returns_work_which_was_not_done_has_failed(
    jobs: Jobs, begin: Any, said: str, *, asynchronous: bool
) -> None:
    async def coroutine(ctx: Any, payload: Any) -> Any:
        return begin()

    jobs.define("wrapped", coroutine if asynchronous else lambda ctx, payload: begin(), retry=NO_RETRY)
    job = jobs.enqueue("wrapped")
    jobs.create_worker().run_once()
    done = jobs.get(job.id)
    assert (done.status, done.error_type) == ("dead", "TypeError")
    assert f"returned {said}" in str(done.error_message)
