"""What an application registers around the running of its jobs: middleware, hooks after a failure, captured logs."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from sloppyjobs.domain import options
from sloppyjobs.domain.model import Job, NewJob

Middleware = Callable[..., Any]
"""``(ctx, payload, call_next)``; a coroutine function wraps coroutines, any other wraps functions."""

JobHook = Callable[[Job], Any]
"""Told of a job, as the settlement left it; a coroutine function is run to its end."""

Observer = Callable[[NewJob, Job, bool], None]
"""Told of every job that is enqueued: as it was asked for, as it was answered, and whether it is committed already."""

F = TypeVar("F", bound=Callable[..., Any])


class Hooks:
    """The hooks of one ``Jobs``, in the order of their registration."""

    def __init__(self) -> None:
        self._middlewares: tuple[Middleware, ...] = ()
        self._dead: tuple[JobHook, ...] = ()
        self._retry: tuple[JobHook, ...] = ()
        self.log_levels: dict[str, int | None] = {}
        """From which level on the logs of a job are captured, by its name; None captures nothing."""

    @property
    def middlewares(self) -> tuple[Middleware, ...]:
        """What wraps handlers, the outermost first."""
        return self._middlewares

    @property
    def dead(self) -> tuple[JobHook, ...]:
        """Called for every job that is dead."""
        return self._dead

    @property
    def retry(self) -> tuple[JobHook, ...]:
        """Called for every job that failed and will be tried again."""
        return self._retry

    def add_middleware(self, function: F) -> F:
        """Wrap handlers in one more layer, inside those that are there already."""
        self._middlewares = (*self._middlewares, _callable("middleware", function))
        return function

    def add_dead(self, function: F) -> F:
        """Call ``function`` for every job that is dead."""
        self._dead = (*self._dead, _callable("on_dead", function))
        return function

    def add_retry(self, function: F) -> F:
        """Call ``function`` for every job that will be tried again."""
        self._retry = (*self._retry, _callable("on_retry", function))
        return function

    def hook_context(self) -> AbstractContextManager[Any]:
        """The context in which hooks after a settlement run."""
        return nullcontext()


def _callable(what: str, function: F) -> F:
    if not callable(function):
        raise options.refuse(what, function, "must be a function")
    return function


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it makes a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - the method itself is looked at
    )


def log_level(option: str, value: object) -> int | None:
    """From which level on logs are captured: True is ``info``, False nothing, or a level by its name or number."""
    if value is None or value is False:
        return None
    if value is True:
        return logging.INFO
    if isinstance(value, int):
        return value
    names = logging.getLevelNamesMapping()
    if not isinstance(value, str) or value.upper() not in names:
        raise options.refuse(option, value, "must be True, False, or a level such as 'info' or logging.WARNING")
    return names[value.upper()]
