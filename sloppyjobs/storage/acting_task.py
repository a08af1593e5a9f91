"""For which task of an event loop a thread works: what a coroutine hands to a thread is still the coroutine's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_given: ContextVar[asyncio.Task[Any] | None] = ContextVar("sloppyjobs_acting_task", default=None)


@contextmanager
def on_behalf_of_task() -> Iterator[None]:
    """Threads that are begun inside, and given this context, work for the task that waits for them."""
    token = _given.set(acting_task())
    try:
        yield
    finally:
        _given.reset(token)


def acting_task() -> asyncio.Task[Any] | None:
    """The task for which this code runs; None outside of tasks."""
    given = _given.get()
    if given is not None:
        return given
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
