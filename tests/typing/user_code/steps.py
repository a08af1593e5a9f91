"""What a checker knows of durable steps, in functions and in coroutines."""

from typing import Any, assert_type

from sloppyjobs import AsyncContext, Context, Job, Jobs, SignalTimeout

jobs = Jobs("sqlite:///shop.db")


def charge(order: int, *, currency: str = "EUR") -> str:
    return f"{order} {currency}"


async def charge_async(order: int) -> float:
    return float(order)


@jobs.define("order")
def order(ctx: Context, payload: int) -> str:
    receipt = ctx.step("charge", charge, payload, currency="USD")
    assert_type(receipt, str)
    ctx.sleep("cool-down", 3600)
    try:
        assert_type(ctx.wait_for("approved", timeout=86_400), Any)
    except SignalTimeout:
        return "refused"
    ctx.step("charge-again", charge, "seven")  # expect: arg-type | reportArgumentType
    ctx.step("charge-nothing", charge)  # expect: call-arg | reportCallIssue
    return receipt


@jobs.define("order-async")
async def order_async(ctx: AsyncContext, payload: int) -> float:
    amount = await ctx.step("charge", charge_async, payload)
    assert_type(amount, float)
    text = await ctx.step("print", charge, payload)
    assert_type(text, str)
    await ctx.sleep("cool-down", 3600)
    assert_type(await ctx.wait_for("approved", timeout=60), Any)
    await ctx.step("charge-again", charge_async, "seven")  # expect: call-overload | reportArgumentType reportCallIssue
    ctx.progress(50)
    return amount


def signalling(job: Job[str | None]) -> None:
    assert_type(jobs.signal(job, "approved", {"by": "ada"}), bool)
    assert_type(jobs.signal(job.id, "approved"), bool)
    assert_type(jobs.signal(business_key="order:1", name="approved", payload=1), bool)
    assert_type(order.enqueue(3), Job[str | None])
    assert_type(order_async.enqueue(3), Job[float | None])
    jobs.signal(3, "approved")  # expect: arg-type | reportArgumentType


async def signalling_async() -> None:
    assert_type(await jobs.signal_async("job", "approved"), bool)
