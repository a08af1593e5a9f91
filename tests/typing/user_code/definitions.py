"""What a checker knows of a job that is defined by a function or a coroutine."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

from sloppyjobs import Cancel, Context, Definition, Job, Jobs, Snooze

jobs = Jobs("sqlite:///shop.db")


@dataclass
class Email:
    to: str
    subject: str = ""


class Counts(TypedDict):
    rows: int


@jobs.define("send-email", queue="emails", input=Email, timeout=30)
def send_email(ctx: Context, payload: Email) -> int:
    return len(payload.to)


@jobs.define("count", input=Counts)
async def count(ctx: Context, payload: Counts) -> list[str]:
    return ["row"] * payload["rows"]


@jobs.define("poll")
def poll(ctx: Context, payload: dict[str, int], dry_run: bool = False) -> bool | Snooze | Cancel:
    return Snooze(60) if payload else Cancel("nothing to poll")


@jobs.define("tick")
def tick(ctx: Context, payload: None) -> None:
    send: Definition[Email, int] = send_email
    send.enqueue(Email("ada@example.org"))


@jobs.define("report")
def report(ctx: Context, payload: str | None) -> str:
    return payload or "all"


@jobs.define("numbers", input=list[int])
def numbers(ctx: Context, payload: list[int]) -> Any:
    return payload


@jobs.define("any-object", input=int | str)
def any_object(ctx: Any, payload: int | str) -> dict[str, int]:
    return {}


def unknown_signature() -> Callable[..., Any]:
    raise NotImplementedError


class Sender:
    def __call__(self, ctx: Context, payload: Email) -> int:
        return 1


sender = jobs.define("sender", Sender())
unknown = jobs.define("unknown", unknown_signature())


def work(ctx: Context, payload: Email) -> float:
    return 1.5


async def work_async(ctx: Context, payload: Email) -> float:
    return 1.5


added = jobs.define("added", work, priority=3)
added_async = jobs.define("added-async", work_async, input=Email)
elsewhere = jobs.declare("elsewhere", input=Email, queue="media")
untold = jobs.declare("untold")


def enqueueing(ctx: Context) -> None:
    job = send_email.enqueue(Email("ada@example.org"), priority=3, delay=60, metadata={"team": "growth"})
    assert_type(job, Job[int | None])
    assert_type(jobs.wait(job).result, int | None)
    assert_type(jobs.wait(job, timeout=5), Job[int | None])
    assert_type(count.enqueue({"rows": 3}), Job[list[str] | None])
    assert_type(poll.enqueue({"a": 1}), Job[bool | None])
    assert_type(tick.enqueue(), Job[None])
    assert_type(report.enqueue(), Job[str | None])
    assert_type(report.enqueue("july"), Job[str | None])
    assert_type(added.enqueue(Email("ada@example.org")), Job[float | None])
    assert_type(added_async.enqueue(Email("ada@example.org")), Job[float | None])
    assert_type(elsewhere.enqueue(Email("ada@example.org")).result, Any | None)
    assert_type(jobs.get(job.id).result, Any)
    untold.enqueue({"anything": 1})
    untold.enqueue()
    assert_type(sender.enqueue(Email("ada@example.org")), Job[int | None])
    assert_type(numbers.enqueue([1]).result, Any | None)
    assert_type(any_object.enqueue("x"), Job[dict[str, int] | None])
    unknown.enqueue(3, priority=1)

    send_email.enqueue({"to": "ada@example.org"})  # expect: arg-type | reportArgumentType
    send_email.enqueue()  # expect: call-arg | reportCallIssue
    send_email.enqueue(Email("a"), priority="high")  # expect: arg-type | reportArgumentType
    send_email.enqueue(Email("a"), prioriti=3)  # expect: call-arg | reportCallIssue
    count.enqueue({"lines": 3})  # expect: typeddict-item typeddict-unknown-key | reportArgumentType
    tick.enqueue("now")  # expect: call-overload | reportCallIssue reportArgumentType
    elsewhere.enqueue("x")  # expect: arg-type | reportArgumentType


async def calling(ctx: Context) -> None:
    assert_type(send_email(ctx, Email("ada@example.org")), int)
    counting = count(ctx, {"rows": 3})
    _ = assert_type(counting, Coroutine[Any, Any, list[str]])
    assert_type(await counting, list[str])
    assert_type(await count(ctx, {"rows": 3}), list[str])
    assert_type(poll(ctx, {}, dry_run=True), bool | Snooze | Cancel)
    assert_type(any_object(None, 3), dict[str, int])
    assert_type(numbers(ctx, [1]), Any)
    unknown(ctx, 3)
    assert_type(added(ctx, Email("ada@example.org")), float)
    assert_type(await added_async(ctx, Email("ada@example.org")), float)

    send_email(ctx, "ada@example.org")  # expect: arg-type | reportArgumentType
    send_email(ctx)  # expect: call-arg | reportCallIssue
    poll(ctx, {}, wet_run=True)  # expect: call-arg | reportCallIssue


def passing_on(job: Job, definition: Definition) -> None:
    """A job and a definition without parameters are of anything."""
    assert_type(job.result, Any)
    definition.enqueue(3, queue="emails")
    definition.enqueue()
    passing_on(jobs.wait("job_1"), send_email)


def other(ctx: Context, payload: Counts) -> None: ...


jobs.define("mismatch", input=Email)(other)  # expect: arg-type | reportArgumentType reportCallIssue
jobs.define("unknown-setting", work, colour="red")  # expect: call-overload | reportCallIssue
jobs.define("bad-setting", work, isolation="fiber")  # expect: call-overload | reportCallIssue reportArgumentType
jobs.declare("bad-setting", timeout="soon")  # expect: call-overload | reportArgumentType
