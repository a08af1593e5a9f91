"""What lies around handlers: the application's middleware, and spans where tracing is configured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sloppyjobs.enqueue.definitions import Definition, Handler
from sloppyjobs.logs import running
from sloppyjobs.observe import traces
from sloppyjobs.observe.hooks import Hooks, Middleware, is_async


class Surroundings:
    """Handlers with everything around them, put together once for each definition."""

    def __init__(self, hooks: Hooks, *, traced: bool = True) -> None:
        self.hooks = hooks
        self._traced = traced
        self._layers: tuple[Any, ...] = ()
        self._made: dict[Definition, Handler] = {}

    def around(self) -> Callable[[Definition], Handler] | None:
        """Finds what to call for a definition; None where nothing surrounds handlers. Asked once a turn."""
        tracer = traces.tracer() if self._traced else None
        middlewares = self.hooks.middlewares
        if tracer is None and not middlewares:
            return None
        layers = (tracer, *middlewares)
        if layers != self._layers:
            self._layers, self._made = layers, {}
        return self._handler

    def _handler(self, definition: Definition) -> Handler:
        found = self._made.get(definition)
        if found is None:
            found = self._made[definition] = self._put_together(definition)
        return found

    def _put_together(self, definition: Definition) -> Handler:
        made = definition.handler
        assert made is not None
        coroutine = definition.isolation == "async"
        tracer, *middlewares = self._layers
        for middleware in reversed(middlewares):
            if is_async(middleware) == coroutine:
                made = _async_layer(middleware, made) if coroutine else _layer(middleware, made)
        if tracer is None:
            return made
        return _async_span(tracer, made) if coroutine else _span(tracer, made)


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
