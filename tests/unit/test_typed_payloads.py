"""Many typed payloads at once are written as each alone, or not at all."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from sloppyjobs.domain.payload import encode, validate_input
from sloppyjobs.enqueue.typed_payloads import encode_typed
from sloppyjobs.errors import InvalidPayload


class Level(enum.IntEnum):
    HIGH = 3


class Line(msgspec.Struct):
    text: str
    size: float | None = None


class Order(msgspec.Struct, omit_defaults=True):
    number: int
    note: str = ""
    lines: list[Line] = []
    prices: dict[str, int] = {}
    key: UUID | None = None
    day: date | None = None


@dataclass
class Address:
    street: str
    number: int | None = None


class Moment(msgspec.Struct):
    at: datetime


class Anything(msgspec.Struct):
    value: Any


class Model(BaseModel):
    number: int


GARBAGE = st.sampled_from(
    [
        *(None, True, 1.0, 1.5, float("nan"), float("inf"), 2**63, -(2**63), 2**70),
        *("x", "\x00", "\ud800", b"x", (1, 2), {1: 2}, Level.HIGH, Decimal("1.5"), Line("x")),
        *(datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 1)),  # noqa: DTZ001
    ]
)
LINES = st.builds(Line, st.text() | GARBAGE, st.floats() | GARBAGE)
ORDERS = st.builds(
    Order,
    st.integers() | GARBAGE,
    st.text() | GARBAGE,
    st.lists(LINES, max_size=2) | GARBAGE,
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2) | GARBAGE,
    st.uuids() | GARBAGE,
    st.dates() | GARBAGE,
)
PLAIN = st.fixed_dictionaries({"number": st.integers() | GARBAGE}, optional={"note": st.text() | GARBAGE})


def alone(values: list[Any], schema: Any) -> list[str] | None:
    try:
        return [encode(validate_input(value, schema)) for value in values]
    except InvalidPayload:
        return None


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ORDERS, min_size=1, max_size=3) | st.lists(PLAIN, min_size=1, max_size=3))
def test_many_are_written_as_each_alone_or_left_to_be_looked_at(values: list[Any]) -> None:
    assert encode_typed(values, Order) in (alone(values, Order), None)


def test_the_usual_ones_are_written_at_once() -> None:
    orders = [Order(n, f"ü{n}\n", [Line("x", 0.5)], {"a": n}, UUID(int=n), date(2030, 1, 1)) for n in range(3)]
    assert encode_typed(orders, Order) == alone(orders, Order)
    addresses = [Address("x"), Address("y", 2)]
    assert encode_typed(addresses, Address) == ['{"street":"x","number":null}', '{"street":"y","number":2}']
    plain = [{"number": 1}, {"number": 2, "note": "x"}]
    assert encode_typed(plain, Order) == ['{"number":1}', '{"number":2,"note":"x"}']


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (Moment, Moment(datetime(2030, 1, 1))),  # noqa: DTZ001
        (Anything, Anything(1)),
        (Model, Model(number=1)),
        (list[int], [1]),
        (Order, Order(2**63)),
        (Order, Line("x")),
        (Order, {"number": "1"}),
    ],
)
def test_what_needs_a_closer_look_is_left(schema: Any, value: Any) -> None:
    assert encode_typed([value], schema) is None


def test_one_that_is_too_large_is_left_to_be_refused_by_name() -> None:
    assert encode_typed([Order(1), Order(2, "x" * 100)], Order, limit=100) is None
