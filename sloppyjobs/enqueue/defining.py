"""Defining jobs: what ``Jobs`` offers for it, and what type checkers learn from it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Never, ParamSpec, Protocol, TypeVar, Unpack, overload

from sloppyjobs import errors
from sloppyjobs.domain.model import Job
from sloppyjobs.enqueue.definitions import Defaults, Definition, Definitions, Handled, Handler
from sloppyjobs.enqueue.upcasts import U
from sloppyjobs.internals import HasInternals
from sloppyjobs.observe.hooks import log_level

CaptureLogs = bool | int | str | None

P = TypeVar("P")
R = TypeVar("R")
X = TypeVar("X")
More = ParamSpec("More")


class Decorator(Protocol):
    """Takes a handler ``(ctx, payload)``, whose annotations say what the job takes and returns."""

    # Of a handler that may return anything, nothing is known: it might be a coroutine.
    @overload
    def __call__(
        self, function: Callable[Concatenate[X, P, More], Never], /
    ) -> Handled[P, Any, Concatenate[X, P, More], Any]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[X, P, More], Coroutine[Any, Any, R]], /
    ) -> Handled[P, R, Concatenate[X, P, More], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[X, P, More], R], /
    ) -> Handled[P, R, Concatenate[X, P, More], R]: ...


class InputDecorator(Protocol[P]):
    """Takes a handler of what ``input`` says."""

    # Of a handler that may return anything, nothing is known: it might be a coroutine.
    @overload
    def __call__(
        self, function: Callable[Concatenate[X, P, More], Never], /
    ) -> Handled[P, Any, Concatenate[X, P, More], Any]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[X, P, More], Coroutine[Any, Any, R]], /
    ) -> Handled[P, R, Concatenate[X, P, More], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[X, P, More], R], /
    ) -> Handled[P, R, Concatenate[X, P, More], R]: ...


class Defining(HasInternals):
    """What ``Jobs`` offers to define jobs."""

    definitions: Definitions
    enqueue: Callable[..., Job]

    @overload
    def define(
        self,
        name: str,
        handler: None = None,
        *,
        input: type[P],
        capture_logs: CaptureLogs = None,
        **settings: Unpack[Defaults],
    ) -> InputDecorator[P]: ...
    @overload
    def define(
        self,
        name: str,
        handler: None = None,
        *,
        input: Any = None,
        capture_logs: CaptureLogs = None,
        **settings: Unpack[Defaults],
    ) -> Decorator: ...
    @overload
    def define(
        self,
        name: str,
        handler: Callable[Concatenate[X, P, More], Never],
        *,
        input: Any = None,
        capture_logs: CaptureLogs = None,
        **settings: Unpack[Defaults],
    ) -> Handled[P, Any, Concatenate[X, P, More], Any]: ...
    @overload
    def define(
        self,
        name: str,
        handler: Callable[Concatenate[X, P, More], Coroutine[Any, Any, R]],
        *,
        input: Any = None,
        capture_logs: CaptureLogs = None,
        **settings: Unpack[Defaults],
    ) -> Handled[P, R, Concatenate[X, P, More], Coroutine[Any, Any, R]]: ...
    @overload
    def define(
        self,
        name: str,
        handler: Callable[Concatenate[X, P, More], R],
        *,
        input: Any = None,
        capture_logs: CaptureLogs = None,
        **settings: Unpack[Defaults],
    ) -> Handled[P, R, Concatenate[X, P, More], R]: ...

    def define(
        self,
        name: str,
        handler: Handler | None = None,
        *,
        input: Any = None,
        capture_logs: CaptureLogs = None,
        **settings: Unpack[Defaults],
    ) -> Any:
        """Define a job by its handler ``(ctx, payload)``; as a decorator, or with the handler as an argument.

        With ``isolation="process"`` the handler runs in a process of its own, which is killed when its time is over.
        There, middleware, the context of an application, log records and ``ctx`` work as in a thread, except that
        ``ctx.signal`` is never set and ``ctx.enqueue`` takes no session. Handler, ``input`` and a callable backoff must
        be at the top of a module.

        ``log`` is what the process that settles an attempt logs of it: ``"all"`` (the default), ``"failures"`` (those
        that failed, timed out or were lost), ``"dead"`` (only when the job is given up) or ``"none"``.

        ``capture_logs`` keeps with the job what loggers say inside its handler: True (from ``info`` on), a level, or
        False; without it the worker's own ``capture_logs`` decides.

        Raises ``DuplicateJob`` for a name that is taken and ``InvalidOption`` for settings that cannot work.
        """
        if callable(name):
            called = getattr(name, "__name__", "handler")
            raise errors.InvalidOption(f"@jobs.define needs the name of the job: @jobs.define({called!r})")
        level = log_level("capture_logs", capture_logs)

        def defined(function: Handler) -> Handled[Any, Any, ..., Any]:
            definition: Handled[Any, Any, ..., Any] = Handled(name, function, self.enqueue, input=input, **settings)
            self.definitions.add(definition)
            if capture_logs is not None:
                self._internals.hooks.log_levels[name] = level
            return definition

        return defined if handler is None else defined(handler)

    @overload
    def declare(self, name: str, *, input: type[P], **settings: Unpack[Defaults]) -> Definition[P, Any]: ...
    @overload
    def declare(self, name: str, *, input: Any = None, **settings: Unpack[Defaults]) -> Definition[Any, Any]: ...

    def declare(self, name: str, *, input: Any = None, **settings: Unpack[Defaults]) -> Definition[Any, Any]:
        """Make a job known that is handled elsewhere, so that it can be enqueued here."""
        definition: Definition[Any, Any] = Definition(name, None, self.enqueue, input=input, **settings)
        self.definitions.add(definition)
        return definition

    def upcast(self, name: str, version: int) -> Callable[[U], U]:
        """Turn payloads of the job ``name`` that were written as ``version`` into those of the next version.

        A decorator of a function ``(payload)``, which gets the payload as JSON has it and returns the new one. Before
        a payload is validated and given to its handler, every upcast from its version to the definition's ``version``
        is called in turn. A missing one, and one that fails, is ``UpcastFailed``: the job is dead at once.

        Raises ``DuplicateJob`` where there is one from that version, ``InvalidOption`` for what cannot work.
        """

        def registered(function: U) -> U:
            self.definitions.add_upcast(name, version, function)
            return function

        return registered
