"""Refunds of the sample shop: a handler with durable steps that sleeps, and then waits for somebody's approval."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sloppyjobs.domain.retry import Retry
from sloppyjobs.errors import SignalTimeout
from sloppyjobs.worker import Context

if TYPE_CHECKING:
    from sloppyjobs.jobs import Jobs
    from sloppyjobs.storage.clock import FakeClock

AGO = timedelta(hours=2)
"""When the refunds were asked for that are there from the start."""
_COOL_DOWN = 1800.0


def _load_order(order: int) -> dict[str, Any]:
    return {"order": order, "total": "129.90", "card": {"number": "4000000000000002"}}


def _check_fraud(attempt: int) -> dict[str, Any]:
    if attempt == 1:
        raise ConnectionResetError("fraud.example closed the connection")
    return {"score": 0.31, "review": True}


def refund_order(ctx: Context, payload: dict[str, Any]) -> dict[str, Any]:
    """Give money back, once somebody has said yes."""
    order = ctx.step("load-order", _load_order, payload["order"])
    ctx.step("check-fraud", _check_fraud, ctx.attempt)
    ctx.sleep("cool-down", _COOL_DOWN)
    try:
        approved = ctx.wait_for("approved", timeout=timedelta(days=2))
    except SignalTimeout:
        return {"refunded": False, "why": "nobody has approved it"}
    return ctx.step("refund", lambda: {"refunded": order["total"], "approved_by": approved["by"]})


def define(jobs: Jobs) -> None:
    """Make the job known."""
    retry = Retry(max_attempts=5, backoff="fixed", initial=10)
    jobs.define("refund-order", refund_order, queue="refunds", retry=retry, redact=("card.number",), log="none")


def fill(past: Jobs, clock: FakeClock) -> None:
    """Three refunds: one that is done, one that waits for its approval, and one that sleeps."""
    worker = past.create_worker(queues=("refunds",), recurring=False, maintenance=False)
    done, *_ = [_ask_for(past, order) for order in (48_211, 48_213)]
    for seconds in (0.0, 60.0, _COOL_DOWN):
        clock.advance(seconds)
        worker.run_once()
    past.admin.signal(done, "approved", {"by": "ada", "pin": "demo-pin"}, actor="demo", reason="the customer called")
    clock.advance(AGO - timedelta(seconds=60 + 2 * _COOL_DOWN))
    worker.run_once()
    _ask_for(past, 48_219)
    worker.run_once()
    clock.advance(60)
    worker.run_once()


def _ask_for(past: Jobs, order: int) -> str:
    key = f"refund:{order}"
    return past.enqueue("refund-order", {"order": order}, business_key=key, principal="returns-desk").id
