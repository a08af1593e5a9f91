"""A value of a kind that cannot work is refused by name, wherever it is passed, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypedDict

import pytest
from sqlalchemy.orm import Session

from sloppyjobs import After, Claim, Result, Retry, Signal, storage
from sloppyjobs.domain import options
from sloppyjobs.errors import InvalidOption, InvalidSchedule, JobsError, UnknownJob
from sloppyjobs.jobs import Jobs


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


@pytest.fixture
def jobs(ready_sqlite_url: str) -> Jobs:
    made = Jobs(ready_sqlite_url)
    made.define("work", lambda ctx, payload: None)
    return made


def _in_workflow(jobs: Jobs, **options: Any) -> None:
    with jobs.workflow("flow") as flow:
        flow.add("work", **options)


WRONG: dict[str, tuple[Callable[[Jobs], object], str]] = {
    "items that cannot be gone through": (lambda jobs: jobs.enqueue_many(None), "items"),  # type: ignore[arg-type]
    "a text as items": (lambda jobs: jobs.enqueue_many("work"), "items"),  # type: ignore[arg-type]
    "a chain of nothing": (lambda jobs: jobs.chain(None), "items"),  # type: ignore[arg-type]
    "members that are none": (lambda jobs: jobs.open_batch("b").enqueue_many(5), "items"),  # type: ignore[arg-type]
    "a list as a tag": (lambda jobs: jobs.enqueue_many([("work", {}, {"tags": [[1]]})]), "items[0].tags"),
    "something else than a claim, to prolong": (lambda jobs: jobs.heartbeat(None), "claim"),  # type: ignore[arg-type]
    "an id as a claim, to extend": (lambda jobs: jobs.extend("job_1", 5), "claim"),  # type: ignore[arg-type]
    "an id as a claim, to complete": (lambda jobs: jobs.complete("job_1"), "claim"),  # type: ignore[arg-type]
    "an id as a claim, to fail": (lambda jobs: jobs.fail("job_1", "x"), "claim"),  # type: ignore[arg-type]
    "keys to redact that are none": (lambda jobs: jobs.define("a", print, redact=5), "redact"),
    "metadata of a definition that is text": (lambda jobs: jobs.define("a", print, metadata="team"), "metadata"),
    "metadata of a definition that is a number": (lambda jobs: jobs.define("a", print, metadata=0), "metadata"),
    "a number of queues": (lambda jobs: jobs.create_worker(queues=3), "queues"),  # type: ignore[arg-type]
    "a number as a scope": (lambda jobs: jobs.admin.list_queues(scope=3), "scope"),  # type: ignore[arg-type]
    "a limit's name with NUL": (lambda jobs: jobs.admin.set_limit("a\0b", concurrency=1), "name"),
    "a limit's name with a lone surrogate": (lambda jobs: jobs.admin.set_limit("\ud800", concurrency=1), "name"),
    "a comparison with NaN": (lambda _: Result("/rows", ">", float("nan")), "value"),
    "a comparison with a lone surrogate": (lambda _: Result("/rows", "==", "\ud800"), "value"),
    "a comparison of no parent": (lambda jobs: _in_workflow(jobs, when=Result("", "==", 1)), "when"),
    "an end of no parent": (lambda jobs: _in_workflow(jobs, on="failure"), "on"),
    "an option that a batch does not have": (lambda jobs: jobs.open_batch("b", on_sucess=("work",)), "on_sucess"),  # type: ignore[call-arg]
    "an option that a workflow does not have": (lambda jobs: jobs.workflow("f", meta={}), "meta"),  # type: ignore[call-arg]
    "an option that a limit does not have": (lambda jobs: jobs.limit("api", concurency=1), "concurency"),  # type: ignore[call-arg]
    "a text that is no claim": (lambda _: Claim.from_json("{}"), "text"),
    "a number as a claim's text": (lambda _: Claim.from_json(5), "text"),  # type: ignore[arg-type]
    "a principal that is not asked": (lambda _: Jobs("sqlite://", principal="ada"), "principal"),  # type: ignore[arg-type]
    "a number as a prefix of tables": (lambda _: storage.sqlite("sqlite://", prefix=5), "prefix"),
    "a list as a schema of tables": (lambda _: storage.postgres("postgresql://", schema=["a"]), "schema"),
    "a number as the type of a payload": (lambda jobs: jobs.define("a", print, input=5), "input"),
    "a number as the type of a payload that is declared": (lambda jobs: jobs.declare("a", input=5), "input"),
    "an exception that no class can be": (lambda _: Retry(retry_on="a\ud800"), "retry_on"),
    "a fraction as a port": (lambda jobs: jobs.create_worker(metrics_port=1.5), "metrics_port"),
    "bytes as ports": (lambda jobs: jobs.create_worker(metrics_port=b"x"), "metrics_port"),
    "a text as a truth": (lambda jobs: jobs.create_worker(recurring="false"), "recurring"),
    "a number as what to find": (lambda jobs: jobs.admin.find_jobs(5), "text"),  # type: ignore[arg-type]
    "nothing as what to find": (lambda jobs: jobs.admin.find_names(None), "text"),  # type: ignore[arg-type]
    "a text as how many to find": (lambda jobs: jobs.admin.find_jobs("a", limit="x"), "limit"),  # type: ignore[arg-type]
    "a text as names of limits": (lambda jobs: jobs.admin.full_partitions("api"), "names"),
    "a number as names of limits": (lambda jobs: jobs.admin.fullest_partitions(5), "names"),  # type: ignore[arg-type]
    "a URL of another database": (lambda _: storage.sqlite("postgresql://host/name"), "target"),
    "an engine of another database": (lambda jobs: storage.mariadb(jobs.storage.engine), "target"),
    "a session of no database": (lambda jobs: jobs.enqueue("work", session=Session()), "session"),
    "numbers as names of limits": (lambda jobs: jobs.admin.fullest_partitions([1]), "names"),  # type: ignore[list-item]
    "a name of a limit with NUL": (lambda jobs: jobs.admin.fullest_partitions(["a\0"]), "names"),
    "a text as a dry run": (lambda jobs: jobs.admin.bulk("retry", {"queue": "q"}, dry_run="false"), "dry_run"),  # type: ignore[arg-type]
    "nothing as a dry run": (lambda jobs: jobs.admin.bulk("retry", {"queue": "q"}, dry_run=None), "dry_run"),  # type: ignore[arg-type]
    "a text that creates a limit": (lambda jobs: jobs.admin.set_limit("a", concurrency=1, create="no"), "create"),  # type: ignore[arg-type]
    "a text that creates a queue": (lambda jobs: jobs.admin.pause_queue("typo", create="no"), "create"),  # type: ignore[arg-type]
    "a text that makes a queue age": (lambda jobs: jobs.admin.set_queue_ageing("q", 60, create="no"), "create"),  # type: ignore[arg-type]
    "a text as a comparison": (lambda jobs: jobs.admin.stats(compare="no"), "compare"),  # type: ignore[arg-type]
    "an isolation of a declaration": (lambda jobs: jobs.declare("a", isolation="banana"), "isolation"),  # type: ignore[typeddict-item]
    "names as schedules": (lambda jobs: jobs.admin.last_occurrences(["a"]), "schedules"),  # type: ignore[list-item]
    "a value without a text": (lambda jobs: jobs.enqueue("work", queue=Unprintable()), "queue"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_value_of_the_wrong_kind_is_refused_by_name(jobs: Jobs, wrong: str) -> None:
    attempt, field = WRONG[wrong]
    with pytest.raises(InvalidOption) as refused:
        attempt(jobs)
    assert refused.value.field == field
    assert list(jobs.admin.list_jobs()) == []


def test_a_partition_function_that_raises_is_named_and_its_text_is_not_repeated(jobs: Jobs) -> None:
    def tenant(payload: Any) -> str:
        raise KeyError(payload["secret"])

    jobs.define("charge", lambda ctx, payload: None, resource="api", partition=tenant)
    with pytest.raises(InvalidOption, match="partition: the function that says it raised KeyError") as refused:
        jobs.enqueue("charge", {"secret": "canary-77"})
    assert refused.value.field == "partition"
    assert "canary-77" not in str(refused.value)
    with pytest.raises(InvalidOption) as refused:
        jobs.enqueue_many([("charge", {"secret": "canary-77"})])
    assert refused.value.field == "items[0].partition"


@pytest.mark.parametrize("read", ["attempts", "events", "logs", "steps", "explain", "get_job"])
def test_an_id_that_is_no_text_is_an_unknown_job(jobs: Jobs, read: str) -> None:
    with pytest.raises(UnknownJob):
        getattr(jobs.admin, read)({"id": 1})


LONG = "x" * 100_000
ENDLESS: dict[str, Callable[[Jobs], object]] = {
    "tags": lambda jobs: jobs.enqueue("work", tags=LONG),
    "a name": lambda jobs: jobs.enqueue(LONG),
    "queues": lambda jobs: jobs.create_worker(queues=LONG),
    "keys": lambda jobs: jobs.define("a", print, redact=LONG),
    "a scope": lambda jobs: jobs.admin.list_queues(scope=LONG),
    "attempts": lambda _: Retry(max_attempts=LONG),  # type: ignore[arg-type]
    "a backoff": lambda _: Retry(backoff=LONG),  # type: ignore[arg-type]
    "the type of a payload": lambda jobs: jobs.define("a", print, input=LONG),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_a_refusal_of_an_endless_value_is_short(jobs: Jobs, what: str) -> None:
    with pytest.raises(JobsError) as refused:
        ENDLESS[what](jobs)
    assert len(str(refused.value)) < 1_000


def test_what_is_shown_of_a_value_is_bounded() -> None:
    assert options.shown("é" * 500) == "'" + "é" * 119 + "…"
    assert options.shown(Unprintable()) == "<Unprintable>"


class Text(str):
    """As Markup, or as names from SQLAlchemy: a text of a kind of its own."""

    __slots__ = ()

    def __str__(self) -> str:
        return "not this"


def test_a_text_of_another_class_is_taken_for_its_text(jobs: Jobs) -> None:
    keys = {"idempotency_key": Text("i"), "business_key": Text("b"), "correlation_id": Text("c"), "queue": Text("q")}
    jobs.limit(Text("api"), concurrency=1)
    more = {"principal": Text("ada"), "tags": [Text("t")], "resource": Text("api"), "partition": Text("p")}
    first = jobs.enqueue("work", Text("x"), **keys, **more)
    assert type(first.business_key) is str
    found = jobs.get(Text(first.id))
    assert (found.idempotency_key, found.business_key, found.queue, found.tags) == ("i", "b", "q", ("t",))
    after = After(Text(first.id), when=Result(Text("/a"), Text("=="), Text("x")))
    waiting, another = jobs.enqueue_many([("work", {}, {"depends_on": [after]}), ("work", {}, {"queue": Text("q")})])
    assert jobs.admin.dependencies(waiting.id).parents[0].job_id == first.id
    assert another.queue == "q"
    jobs.signal(Text(first.id), Text("go"), {})
    jobs.recurring(Text("nightly"), "work", cron=Text("0 2 * * *"), timezone=Text("Europe/Paris"))
    assert jobs.admin.get_recurring("nightly").timezone == "Europe/Paris"
    assert jobs.admin.cancel(Text(first.id)).status == "cancelled"


def test_what_is_nested_too_deeply_to_be_shown_is_no_id(jobs: Jobs) -> None:
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(UnknownJob):
        jobs.get(deep)  # type: ignore[arg-type]
    with pytest.raises(InvalidSchedule):
        jobs.recurring("a", "work", cron=deep)  # type: ignore[arg-type]


def test_a_type_whose_names_are_defined_later_can_be_a_payload(jobs: Jobs) -> None:
    class Order(TypedDict):
        lines: list[Line]  # type: ignore[name-defined]  # noqa: F821

    jobs.define("order", lambda ctx, payload: None, input=Order)


def test_a_handler_waits_for_its_signal_for_a_length_of_time_of_any_kind() -> None:
    signal = Signal()
    waited = [signal.wait(seconds) for seconds in (0, 0.001, timedelta(milliseconds=1), -1, timedelta(seconds=-1))]
    assert waited == [False] * 5
    for wrong in ("5", True, float("nan"), float("inf"), 1e300):
        with pytest.raises(InvalidOption) as refused:
            signal.wait(wrong)  # type: ignore[arg-type]
        assert refused.value.field == "seconds"
