"""Payloads and names arrive as they were given: every JSON value, typed payloads, and text of any kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Any, TypedDict

import msgspec
import pytest

from sloppyjobs import errors
from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.conformance.records import count, damage, ends, row, transitions

VALUES: list[Any] = [
    None,
    True,
    0,
    -(2**63),
    2**63 - 1,
    1e308,
    -0.5,
    "",
    [],
    {},
    {"": ""},
    [[[[]]], {"a": {"b": [None, False]}}],
    "\\N",
    "\\.",
    "\\",
    "a\\tb\tc\nd\re\bf\fg\vh",
    "'quoted' \"twice\" `thrice` $1 %s %(x)s :x ? {x} {{}} --;/*",
    "é 漢字 🎉 \u202e right \u200f left \u2028 \x7f \x85",
    {"\\N": "\\N", "a\tb": "c\nd"},
]

NAMES = [
    "a/b/../c",
    "dots.and:colons",
    'it\'s "quoted"',
    "100% %s %(name)s {name} :name $1 ?",
    "; DROP TABLE sloppy_jobs; --",
    "back\\slash \\N \\.",
    "tab\tand\nnew line\r",
    "🎉 emoji",
    "\u202egnitirw\u202c",
    "漢" * 128,
    " leading and trailing ",
    "*",
]


@dataclass
class Order:
    """A payload as a dataclass."""

    number: int
    items: list[str] = field(default_factory=list)
    due: date | None = None


class Address(TypedDict):
    """A payload as a TypedDict."""

    street: str
    house: int


class Parcel(msgspec.Struct):
    """A payload as a Struct."""

    weight: float
    to: str = "home"


def test_every_json_value_arrives_as_it_was_given(jobs: Jobs) -> None:
    seen: list[Any] = []
    jobs.define("keep", lambda ctx, payload: seen.append(payload))
    for value in VALUES:
        jobs.enqueue("keep", value)
    jobs.enqueue_many(("keep", value) for value in VALUES)
    jobs.create_worker().run_once()
    assert seen == VALUES * 2


def test_every_json_value_is_kept_as_a_result(jobs: Jobs) -> None:
    jobs.define("echo", lambda ctx, payload: payload)
    written = jobs.enqueue_many(("echo", value) for value in VALUES)
    jobs.create_worker().run_once()
    assert [jobs.get(job.id).result for job in written] == VALUES


def test_names_of_every_kind_are_kept_and_told_apart(jobs: Jobs) -> None:
    for name in NAMES:
        jobs.define(name, lambda ctx, payload: ctx.name)
    queues = {name: _queue(name) for name in NAMES}
    singles = [jobs.enqueue(name, queue=queues[name], idempotency_key=name, correlation_id=name) for name in NAMES]
    many = jobs.enqueue_many((name, 1, {"queue": queues[name], "principal": name}) for name in NAMES)
    assert [jobs.get(job.id) for job in (*singles, *many)] == [*singles, *many]
    assert [(job.name, job.queue) for job in singles] == list(queues.items())
    assert jobs.create_worker().run_once() == 2 * len(NAMES)
    assert [jobs.get(job.id).result for job in many] == NAMES
    assert jobs.enqueue(NAMES[0], idempotency_key=NAMES[0]).existing


def test_claims_filter_by_names_and_queues_of_every_kind(jobs: Jobs) -> None:
    for name in NAMES:
        jobs.declare(name)
        jobs.enqueue(name, queue=_queue(name))
    for name in NAMES:
        [claim] = jobs.claim(name, queues=[_queue(name)], names=[name], limit=10)
        assert (claim.job.name, claim.job.queue, claim.worker_id) == (name, _queue(name), name)
        assert jobs.complete(claim, name)


def _queue(name: str) -> str:
    """A queue of that name; the star alone is all queues and no name of one."""
    return "**" if name == "*" else name


@pytest.mark.parametrize(
    ("schema", "given", "stored"),
    [
        (Order, Order(7, ["ink"], date(2030, 1, 31)), {"number": 7, "items": ["ink"], "due": "2030-01-31"}),
        (Address, Address(street="Baker Street", house=221), {"street": "Baker Street", "house": 221}),
        (Parcel, Parcel(1.5), {"weight": 1.5, "to": "home"}),
        (list[int], [1, 2], [1, 2]),
    ],
    ids=["dataclass", "TypedDict", "Struct", "list of int"],
)
def test_a_typed_payload_arrives_as_its_type(jobs: Jobs, schema: Any, given: Any, stored: Any) -> None:
    seen: list[Any] = []
    jobs.define("keep", lambda ctx, payload: seen.append(payload), input=schema)
    job = jobs.enqueue("keep", given)
    jobs.enqueue("keep", stored)
    jobs.create_worker().run_once()
    assert seen == [given, given]
    assert msgspec.json.decode(row(jobs, job.id).payload) == stored


def test_a_pydantic_model_arrives_as_one(jobs: Jobs) -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Letter", to=(str, ...), stamps=(int, 1))
    seen: list[Any] = []
    jobs.define("keep", lambda ctx, payload: seen.append(payload), input=model)
    jobs.enqueue("keep", model(to="Ada"))
    jobs.enqueue("keep", {"to": "Ada"})
    with pytest.raises(errors.InvalidPayload, match="stamps"):
        jobs.enqueue("keep", {"to": "Ada", "stamps": "many"})
    jobs.create_worker().run_once()
    assert seen == [model(to="Ada"), model(to="Ada")]


def test_a_payload_that_breaks_its_schema_is_refused_and_the_place_is_named(jobs: Jobs) -> None:
    jobs.define("ship", lambda ctx, payload: None, input=Order)
    refused: list[Any] = [{"number": "7"}, {}, None, [], {"number": 7, "items": [1]}, Parcel(1.0)]
    for payload in refused:
        with pytest.raises(errors.InvalidPayload, match="payload"):
            jobs.enqueue("ship", payload)
    with pytest.raises(errors.InvalidPayload, match=r"payload\.items\[1\]"):
        jobs.enqueue("ship", {"number": 7, "items": ["ink", None]})
    assert count(jobs) == 0


@pytest.mark.parametrize("stored", ['{"number":"seven"}', "{broken", "", "nul"])
def test_a_payload_that_does_not_fit_at_execution_is_dead_at_once(jobs: Jobs, stored: str) -> None:
    ran: list[Any] = []
    jobs.define("ship", lambda ctx, payload: ran.append(payload), input=Order)
    job = jobs.enqueue("ship", Order(7))
    damage(jobs, job.id, payload=stored)
    assert jobs.create_worker().run_once() == 1
    dead = jobs.get(job.id)
    assert (dead.status, dead.error_code, ran) == ("dead", errors.InvalidPayload.code, [])
    assert transitions(jobs, job.id)[-2:] == ["failed:failed", "dead:dead"]
    assert ends(jobs, job.id) == [(1, "failed")]
