"""Handlers that write to the log when they begin and when they end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.history.log import Log


def record_handlers(jobs: Jobs, log: Log) -> None:
    """Surround every handler of these jobs, by middleware. Call it before other middleware is registered."""

    @jobs.middleware
    def record(ctx: Any, payload: Any, call_next: Callable[..., Any]) -> Any:
        log.started(ctx.job_id, ctx.attempt)
        try:
            answer = call_next(ctx, payload)
        except BaseException:
            log.raised(ctx.job_id, ctx.attempt)
            raise
        log.returned(ctx.job_id, ctx.attempt)
        return answer

    @jobs.middleware
    async def record_async(ctx: Any, payload: Any, call_next: Callable[..., Any]) -> Any:
        log.started(ctx.job_id, ctx.attempt)
        try:
            answer = await call_next(ctx, payload)
        except BaseException:
            log.raised(ctx.job_id, ctx.attempt)
            raise
        log.returned(ctx.job_id, ctx.attempt)
        return answer
