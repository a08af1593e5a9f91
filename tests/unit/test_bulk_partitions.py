"""Partitions of the jobs of a bulk call: as each enqueue alone would find them, and with one pass over all."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sloppyjobs import Jobs, errors
from sloppyjobs.enqueue.request import NewJobs


class Order(msgspec.Struct):
    """What a typed job takes."""

    tenant: str | None = None


ITEMS: dict[str, list[tuple[Any, ...]]] = {
    "by a key": [("by-key", {"tenant": f"t{n % 3}", "n": n}) for n in range(7)],
    "by a number": [("by-key", {"tenant": n}) for n in range(3)],
    "without a partition": [("by-key", {"tenant": None}), ("by-key", {"tenant": "a"})],
    "by a function": [("by-function", {"tenant": 10 * n}) for n in range(5)],
    "typed": [("typed", Order("a")), ("typed", Order()), ("typed", Order("b"))],
    "typed, as objects": [("typed", {"tenant": "a"}), ("typed", {"tenant": "b"})],
    "beside jobs that have none": [
        ("plain", {"n": 1}),
        ("by-key", {"tenant": "a"}),
        ("plain", {"n": 2}, {"priority": 1}),
    ],
    "given to all": [("by-key", {}, {"partition": "p"}), ("by-key", {}, {"partition": "q"})],
    "given to some": [("by-key", {}, {"partition": "p"}), ("by-key", {"tenant": "a"}, {"priority": 3})],
    "given as None": [("by-key", {"tenant": "a"}, {"partition": None}), ("by-key", {}, {"partition": "q"})],
    "with another limit": [("by-key", {"tenant": "a"}, {"resource": "other"}), ("by-key", {"tenant": "b"}, {})],
}


@pytest.fixture
def new_jobs() -> NewJobs:
    jobs = Jobs("sqlite://")
    jobs.declare("plain")
    jobs.declare("by-key", resource="api", partition="tenant")
    jobs.declare("by-function", resource="api", partition=lambda payload: payload["tenant"] // 10)
    jobs.declare("typed", input=Order, resource="api", partition="tenant")
    return NewJobs(jobs.definitions, 1000)


def ids_for(items: list[Any]) -> list[str]:
    return [f"job_{place}" for place in range(len(items))]


@pytest.mark.parametrize("items", ITEMS.values(), ids=ITEMS.keys())
def test_partitions_of_many_are_those_of_each_alone(new_jobs: NewJobs, items: list[tuple[Any, ...]]) -> None:
    ids = ids_for(items)
    alone = [
        new_jobs.make(item[0], item[1], id, item[2] if len(item) == 3 else {})
        for item, id in zip(items, ids, strict=True)
    ]
    assert list(new_jobs.many(items, ids)) == alone


def test_jobs_of_one_partition_share_their_terms(new_jobs: NewJobs) -> None:
    made = new_jobs.many(ITEMS["by a key"], ids_for(ITEMS["by a key"]))
    assert len({id(job.terms) for job in made}) == len({job.terms.partition_key for job in made}) == 3


def test_a_payload_without_the_key_is_named(new_jobs: NewJobs) -> None:
    items = [("by-key", {"tenant": "a"}), ("by-key", {"n": 1})]
    with pytest.raises(errors.InvalidOption, match=r"items\[1\]: .*the payload has no such key"):
        new_jobs.many(items, ids_for(items))
