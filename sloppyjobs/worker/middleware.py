"""Handlers wrapped in the application's middleware, and in spans where tracing is configured."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from sloppyjobs.enqueue.definitions import Definition, Handler
from sloppyjobs.logs import running
from sloppyjobs.observe import traces
from sloppyjobs.observe.hooks import Hooks, Middleware, is_async


class MiddlewareChain:
    """Wraps handlers, once for each definition."""

    def __init__(self, hooks: Hooks, *, traced: bool = True) -> None:
        self.hooks = hooks
        self._traced = traced
        self._layers: tuple[Any, ...] = ()
        self._wrapped: dict[Definition, Handler] = {}

    def wrapper(self) -> Callable[[Definition], Handler] | None:
        """Wraps the handler of a definition; None where there is nothing to wrap it in. Asked once a turn."""
        tracer = traces.tracer() if self._traced and traces.OPENTELEMETRY in sys.modules else None
        middlewares = self.hooks.middlewares
        if tracer is None and not middlewares:
            return None
        layers = (tracer, *middlewares)
        if layers != self._layers:
            self._layers, self._wrapped = layers, {}
        return self._wrapped_handler

    def _wrapped_handler(self, definition: Definition) -> Handler:
        wrapped = self._wrapped.get(definition)
        if wrapped is None:
            wrapped = self._wrapped[definition] = self._wrap(definition)
        return wrapped

    def _wrap(self, definition: Definition) -> Handler:
        wrapped = definition.handler
        assert wrapped is not None
        coroutine = definition.isolation == "async"
        tracer, *middlewares = self._layers
        for middleware in reversed(middlewares):
            if is_async(middleware) == coroutine:
                wrapped = _async_layer(middleware, wrapped) if coroutine else _layer(middleware, wrapped)
        if tracer is None:
            return wrapped
        return _async_span(tracer, wrapped) if coroutine else _span(tracer, wrapped)


def _layer(middleware: Middleware, inner: Handler) -> Handler:
    def layer(ctx: Any, payload: Any) -> Any:
        def call_next(ctx: Any = ctx, payload: Any = payload) -> Any:
            return inner(ctx, payload)

        return middleware(ctx, payload, call_next)

    return layer


def _async_layer(middleware: Middleware, inner: Handler) -> Handler:
    async def layer(ctx: Any, payload: Any) -> Any:
        async def call_next(ctx: Any = ctx, payload: Any = payload) -> Any:
            return await inner(ctx, payload)

        return await middleware(ctx, payload, call_next)

    return layer


def _span(tracer: Any, inner: Handler) -> Handler:
    def traced(ctx: Any, payload: Any) -> Any:
        task = running.get()
        with traces.consuming(tracer, task.claim, task.trace, task.definition.redact):
            return inner(ctx, payload)

    return traced


def _async_span(tracer: Any, inner: Handler) -> Handler:
    async def traced(ctx: Any, payload: Any) -> Any:
        task = running.get()
        with traces.consuming(tracer, task.claim, task.trace, task.definition.redact):
            return await inner(ctx, payload)

    return traced
