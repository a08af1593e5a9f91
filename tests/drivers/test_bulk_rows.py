"""A bulk call writes what the same enqueues would write one by one, whatever is asked for of each job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kept_database import url_by

from sloppyjobs import Jobs, Retry, errors, storage
from sloppyjobs.domain.model import Job
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.storage.dialects.postgres import bulk_part
from sloppyjobs.testing.conformance.records import row, transitions

Item = tuple[str, Any, dict[str, Any]]
NOW = datetime(2030, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


class Order(msgspec.Struct):
    """What a typed job takes."""

    number: int
    note: str = ""


TEXT = st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=8)
KEYS = TEXT.map(lambda text: f"k{text}")
PAYLOADS = st.dictionaries(TEXT, st.none() | st.integers(-(2**63), 2**63 - 1) | TEXT | st.lists(TEXT), max_size=3)
ORDERS = st.builds(Order, st.integers(-100, 100), TEXT) | st.builds(dict, number=st.integers(0, 9))
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.sampled_from(["default", "mails", "später"]) | st.none(),
        "priority": st.integers(-3, 3) | st.none(),
        "delay": st.sampled_from([0, 60, 1.5, timedelta(minutes=1), None]),
        "idempotency_key": st.sampled_from(["a", "b", "c", "d"]) | st.none(),
        "max_attempts": st.integers(1, 9),
        "retry": st.sampled_from([Retry(), Retry(max_attempts=2, backoff="fixed", initial=0.25), None]),
        "timeout": st.floats(0.001, 1e6) | st.integers(1, 9) | st.none(),
        "correlation_id": KEYS | st.none(),
        "metadata": st.dictionaries(TEXT, TEXT | st.integers(0, 9), max_size=2) | st.none(),
        "principal": KEYS | st.none(),
    },
)
TIMED = st.fixed_dictionaries(
    {"run_at": st.timedeltas(timedelta(days=-400), timedelta(days=400)).map(lambda after: NOW + after)}
)
ANY_OPTIONS = OPTIONS | TIMED | st.just({})
ITEMS = st.lists(
    st.tuples(st.sampled_from(["greet", "mail"]), PAYLOADS, ANY_OPTIONS)
    | st.tuples(st.just("order"), ORDERS, ANY_OPTIONS),
    min_size=2,
    max_size=8,
)


@pytest.fixture(params=["sqlite", "psycopg", "psycopg2"])
def jobs(request: pytest.FixtureRequest) -> Iterator[Jobs]:
    """With a clock that stands still, so that instants can be compared too."""
    if request.param == "sqlite":
        url = request.getfixturevalue("sqlite_url")
    else:
        url = url_by(request.param, request.getfixturevalue("postgres_url"))
    made = Jobs(storage.from_url(url, clock=FakeClock(NOW)))
    made.init()
    made.declare("greet")
    made.declare("mail", queue="mails", priority=2, timeout=9, retry=Retry(max_attempts=7), metadata={"team": "growth"})
    made.declare("order", input=Order)
    yield made
    made.storage.close()


numbers = count()


def with_own_keys(items: list[Item], who: str) -> list[Item]:
    """The items with keys that nobody else has; equal ones stay equal."""

    def own(options: dict[str, Any]) -> dict[str, Any]:
        key = options.get("idempotency_key")
        return options if key is None else {**options, "idempotency_key": f"{who} {key}"}

    return [(name, value, own(options)) for name, value, options in items]


def seen(jobs: Jobs, told: list[Job], who: str) -> list[Any]:
    """What was answered and written, without ids and without whose keys they are."""
    ids = [job.id for job in told]
    found = []
    for job in told:
        answer = msgspec.structs.asdict(job) | {"id": ids.index(job.id)}
        written = row(jobs, job.id)._asdict() | {"id": None}
        for values in (answer, written):
            values["idempotency_key"] = (values["idempotency_key"] or "").removeprefix(who)
        found.append((answer, written, transitions(jobs, job.id)))
    return found


def one_by_one(jobs: Jobs, items: list[Item]) -> list[Job]:
    return [jobs.enqueue(name, value, **options) for name, value, options in items]


@pytest.mark.parametrize("part", [bulk_part.PART, 2], ids=["by one statement", "by several"])
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(items=ITEMS)
@example(items=[("greet", {}, {"priority": 1}), ("greet", {}, {"priority": None, "max_attempts": 3})])
@example(items=[("mail", {}, {"retry": Retry(max_attempts=2), "max_attempts": m}) for m in (4, 5)])
@example(items=[("greet", {}, {"delay": delay}) for delay in (60, timedelta(minutes=1))])
@example(items=[("greet", {}, {"delay": 1.5, "priority": priority}) for priority in (1, 2)])
@example(items=[("greet", {}, {"priority": 1, "delay": 60}), ("greet", {}, {"delay": 60, "priority": 1})])
@example(items=[("greet", {}, {"priority": 1, "delay": 60}), ("greet", {}, {"priority": 1, "timeout": 2})])
@example(items=[("greet", {}, {"idempotency_key": "a", "queue": "x"}), ("mail", {}, {"idempotency_key": "a"})])
def test_a_bulk_call_writes_what_single_calls_write(jobs: Jobs, part: int, items: list[Item]) -> None:
    usual, bulk_part.PART = bulk_part.PART, part
    number = next(numbers)
    alone, together = f"alone {number}", f"together {number}"
    try:
        many = jobs.enqueue_many(with_own_keys(items, together))
    finally:
        bulk_part.PART = usual
    single = one_by_one(jobs, with_own_keys(items, alone))
    assert seen(jobs, many, together) == seen(jobs, single, alone)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(items=ITEMS)
def test_a_bulk_call_in_a_transaction_writes_what_single_calls_write(jobs: Jobs, items: list[Item]) -> None:
    number = next(numbers)
    alone, together = f"alone {number}", f"together {number}"
    with jobs.storage.engine.connect() as connection:
        many = jobs.enqueue_many(with_own_keys(items, together), connection=connection)
        connection.commit()
    single = one_by_one(jobs, with_own_keys(items, alone))
    assert seen(jobs, many, together) == seen(jobs, single, alone)


REFUSED: dict[str, Item] = {
    "a flag for a priority": ("greet", {}, {"priority": True}),
    "a fraction for a priority": ("greet", {}, {"priority": 1.0}),
    "an empty key": ("greet", {}, {"idempotency_key": ""}),
    "a key that begins with NUL": ("greet", {}, {"correlation_id": "\x00"}),
    "the reserved metadata": ("greet", {}, {"metadata": {"_trace": "x"}}),
    "both times": ("greet", {}, {"delay": 1, "run_at": NOW}),
    "a payload of another type": ("order", Order("x"), {}),  # type: ignore[arg-type]
    "a field of another type": ("order", {"number": "x"}, {}),
    "a number that is too large": ("order", Order(2**63), {}),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_bad_item_is_refused_as_it_is_alone_and_named(
    sqlite_url: str, make_jobs: Callable[..., Jobs], refused: Item, place: int
) -> None:
    jobs = make_jobs(sqlite_url)
    jobs.declare("greet")
    jobs.declare("order", input=Order)
    good: list[Item] = [("greet", {}, {"priority": 1}), ("order", Order(1), {"delay": 1})]
    with pytest.raises(errors.JobsError) as alone:
        jobs.enqueue(refused[0], refused[1], **refused[2])
    with pytest.raises(type(alone.value)) as together:
        jobs.enqueue_many([*good[:place], refused, *good[place:]])
    assert str(together.value) == f"items[{place}]: {alone.value}"


LINKED: list[Item] = [
    ("greet", {}, {"business_key": "one", "tags": ("a", "b")}),
    ("mail", {}, {"business_key": "zero", "unique": "pending", "priority": 3}),
    ("greet", {}, {"tags": ["b", "später"], "idempotency_key": "k"}),
    ("greet", {}, {"business_key": "two", "unique_for": 60, "delay": 5}),
    ("greet", {}, {}),
]


@pytest.mark.parametrize("part", [bulk_part.PART, 2], ids=["by one statement", "by several"])
def test_a_bulk_call_writes_the_rows_of_keys_and_tags_that_a_callers_transaction_writes(
    jobs: Jobs, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_part, "PART", part)

    def named(who: str) -> list[Item]:
        keys = ("business_key", "idempotency_key")
        return [
            (name, value, {option: f"{who} {given}" if option in keys else given for option, given in options.items()})
            for name, value, options in LINKED
        ]

    alone = jobs.enqueue_many(named("alone"))
    with jobs.storage.engine.connect() as connection:
        within = jobs.enqueue_many(named("within"), connection=connection)
        connection.commit()
    assert _linked_rows(jobs, alone, "alone") == _linked_rows(jobs, within, "within")
    assert [job.existing for job in jobs.enqueue_many(named("alone"))] == [True, True, True, True, False]


def _linked_rows(jobs: Jobs, told: list[Job], who: str) -> Any:
    """The rows of keys and tags of these jobs, without ids and without whose they are."""
    places = {job.id: place for place, job in enumerate(told)}
    tables = jobs.storage.tables
    with jobs.storage.engine.connect() as connection:
        keys = [tuple(found) for found in connection.execute(tables.keys.select()) if found.job_id in places]
        tags = [tuple(found) for found in connection.execute(tables.tags.select()) if found.job_id in places]
    assert len(keys) == 3 and len(tags) == 4
    answers = [
        msgspec.structs.asdict(job) | {"id": None, "business_key": None, "idempotency_key": None} for job in told
    ]
    return (
        sorted((key.removeprefix(who), places[job_id], *rest) for key, job_id, *rest in keys),
        sorted((tag, created_at, places[job_id]) for tag, created_at, job_id in tags),
        answers,
    )
