"""What may become JSON is written faithfully; everything else is refused with its place and its reason."""

from __future__ import annotations

import enum
import json
import math
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sloppyjobs.domain.payload import clean_text, convert, decode, encode, encode_flat, validate_input
from sloppyjobs.errors import InvalidOption, InvalidPayload

TEXT = st.text(st.characters(exclude_characters="\x00", codec="utf-8"))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=30)


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Name(str):
    __slots__ = ()


class Count(int):
    pass


@dataclass
class Line:
    sku: str
    price: float = 0.0


@dataclass
class Order:
    id: int
    lines: list[Line] = field(default_factory=list)
    due: date | None = None


class Note(msgspec.Struct):
    text: str
    marks: set[int] = msgspec.field(default_factory=set)


class Address(TypedDict):
    street: str
    number: int


class Model:
    """Has the shape of a pydantic model."""

    def __init__(self, size: int) -> None:
        self.size = size

    def model_dump(self, *, mode: str) -> dict[str, object]:
        assert mode == "json"
        return {"size": self.size}

    @classmethod
    def model_validate(cls, value: Any) -> Model:
        if type(value["size"]) is not int:
            raise ValueError("size must be an integer")
        return cls(value["size"])


def refusal(value: object, **options: Any) -> str:
    with pytest.raises(InvalidPayload) as error:
        encode(value, **options)
    return str(error.value)


@given(VALUES)
def test_json_values_come_back_as_they_were(value: object) -> None:
    assert decode(encode(value)) == value


@given(VALUES)
def test_what_is_written_is_json_for_everybody(value: object) -> None:
    assert json.loads(encode(value)) == value


@given(VALUES)
def test_the_limit_is_exact(value: object) -> None:
    size = len(encode(value).encode())
    encode(value, limit=size)
    assert str(size - 1) in refusal(value, limit=size - 1)


FLAT = st.dictionaries(st.text(), st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.text(), max_size=4)


@given(st.lists(FLAT | st.dictionaries(st.text() | st.integers(), VALUES, max_size=2), min_size=1, max_size=5))
def test_many_are_written_as_each_alone_or_left_to_it(values: list[Any]) -> None:
    try:
        alone = [encode(value) for value in values]
    except InvalidPayload:
        assert encode_flat(values) is None
        return
    assert encode_flat(values) in (alone, None)


def test_many_flat_objects_are_written_at_once() -> None:
    values = [{"n": number, "to": "Ada\nLovelace ✉", "urgent": True, "cc": None, "": 2**63 - 1} for number in range(3)]
    assert encode_flat(values) == [encode(value) for value in values]


@pytest.mark.parametrize(
    "value",
    [
        *({"n": 2**63}, {"n": -(2**63) - 1}, {"n": math.nan}, {"n": "\0"}, {"\0": 1}, {"n": "\ud800"}, {1: 1}),
        *({"n": [1]}, {"n": b""}, {"n": "x" * 100}, ["n"], "n", OrderedDict(n=1)),
    ],
)
def test_what_takes_more_checks_is_not_written_at_once(value: Any) -> None:
    assert encode_flat([{"n": 1}, value], limit=100) is None


def test_tuples_are_lists() -> None:
    point = namedtuple("point", "x y")
    assert encode({"a": (1, 2), "b": point(3, 4)}) == '{"a":[1,2],"b":[3,4]}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            Order(1, [Line("a", 2.5)], date(2026, 1, 2)),
            '{"id":1,"lines":[{"sku":"a","price":2.5}],"due":"2026-01-02"}',
        ),
        (Note("hi", {1}), '{"text":"hi","marks":[1]}'),
        (Colour.RED, '"red"'),
        (Level.HIGH, "3"),
        (datetime(2026, 1, 2, tzinfo=UTC), '"2026-01-02T00:00:00Z"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Decimal("1.50"), '"1.50"'),
        (Name("n"), '"n"'),
        (Count(7), "7"),
        (OrderedDict(a=1), '{"a":1}'),
        (defaultdict(list, a=[1]), '{"a":[1]}'),
        ({Name("k"): 1}, '{"k":1}'),
        (Model(4), '{"size":4}'),
    ],
)
def test_objects_that_stand_for_json_are_written_also_inside_others(value: object, text: str) -> None:
    assert encode(value) == text
    assert encode({"in": [value]}) == '{"in":[' + text + "]}"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "NaN"),
        (math.inf, "infinity"),
        (-math.inf, "infinity"),
        ("a\x00b", "NUL"),
        ("\ud800", "surrogate"),
        (2**63, "64-bit"),
        (-(2**63) - 1, "64-bit"),
        ({1, 2}, "set"),
        (frozenset(), "frozenset"),
        (b"x", "bytes"),
        (bytearray(b"x"), "bytearray"),
        (object(), "object"),
        (object, "type"),
        (1j, "complex"),
        ({1: "a"}, "key of type int"),
        ({None: "a"}, "key of type NoneType"),
        ({"a\x00": 1}, "NUL"),
        ({"\udfff": 1}, "surrogate"),
        (Line("a", math.nan), "NaN"),
        (Line("a\x00"), "NUL"),
        (Order(2**64), "64-bit"),
        (Line(object()), "object"),  # type: ignore[arg-type]
    ],
)
def test_what_is_not_json_is_refused_with_its_place(value: object, reason: str) -> None:
    message = refusal({"items": [0, 1, 2, {"price": value}]})
    assert message.startswith("payload.items[3].price")
    assert reason in message


def test_the_place_of_an_odd_key_is_readable() -> None:
    assert refusal({"a b": {"é\n": math.nan}}).startswith(r"payload['a b']['\xe9\n']: ")


def test_the_place_starts_with_what_it_is() -> None:
    assert refusal([math.nan], what="result").startswith("result[0]: ")


def test_a_refusal_does_not_show_the_value() -> None:
    assert "hunter2" not in refusal({"x": "hunter2\x00"})


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_hundred_levels_are_accepted_and_one_more_is_not() -> None:
    assert encode(nested(100)) == "[" * 100 + "1" + "]" * 100
    assert "deeper than 100" in refusal(nested(101))
    assert "deeper than 100" in refusal([nested(100), date(2026, 1, 1)])


def test_nesting_beyond_the_interpreters_own_depth_is_refused() -> None:
    assert "deeper than 100" in refusal(nested(100_000))


def test_a_container_inside_itself_is_refused() -> None:
    loop: dict[str, object] = {}
    loop["self"] = [loop]
    assert "inside itself" in refusal(loop)


def test_an_object_inside_itself_is_refused() -> None:
    order = Order(1)
    order.lines.append(order)  # type: ignore[arg-type]
    assert "inside itself" in refusal(order)


@pytest.mark.parametrize("leaf", [0, date(2026, 1, 1)])
def test_shared_lists_that_unfold_without_end_are_refused_soon(leaf: object) -> None:
    value: object = leaf
    for _ in range(60):
        value = [value, value]
    assert "too large" in refusal(value)


def test_a_payload_over_the_limit_is_told_both_numbers() -> None:
    message = refusal({"text": "é" * 60}, limit=100)
    assert message == "payload is too large: 131 bytes, the limit is 100"


def test_a_huge_string_is_refused_before_it_is_encoded() -> None:
    message = refusal({"blob": "x" * 100_000_000})
    assert message == "payload.blob: too large: at least 100000002 bytes, the limit is 1048576"


@pytest.mark.parametrize("text", ["", "{", "nan", "[1,]", '"\\ud800"', "[" * 100_000])
def test_text_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidPayload):
        decode(text)


def test_without_a_schema_nothing_is_converted() -> None:
    value = {"a": [1]}
    assert convert(value, None) is value
    assert validate_input(value, None) is value


@pytest.mark.parametrize(
    "value", [Order(1, [Line("a", 2.5)], date(2026, 1, 2)), Note("hi", {1, 2}), Colour.RED, UUID(int=5)]
)
def test_a_typed_value_survives_the_whole_way(value: object) -> None:
    assert convert(decode(encode(validate_input(value, type(value)))), type(value)) == value


def test_builtins_that_fit_are_given_back_without_defaults() -> None:
    assert validate_input({"id": 1}, Order) == {"id": 1}
    assert convert({"id": 1}, Order) == Order(1)


def test_builtins_may_hold_objects_that_fit() -> None:
    assert validate_input({"id": 1, "due": date(2026, 1, 2), "lines": [Line("a")]}, Order) == {
        "id": 1,
        "due": "2026-01-02",
        "lines": [{"sku": "a", "price": 0.0}],
    }


def test_a_typed_dict_is_checked_by_its_fields() -> None:
    assert validate_input({"street": "x", "number": 1}, Address) == {"street": "x", "number": 1}
    with pytest.raises(InvalidPayload, match=r"payload\.number.*int.*str"):
        validate_input({"street": "x", "number": "1"}, Address)


def test_a_wrong_type_is_refused_with_its_place_and_the_expectation() -> None:
    with pytest.raises(InvalidPayload, match=r"^payload\.lines\[1\]\.sku: Expected `str`, got `int`$"):
        convert({"id": 1, "lines": [{"sku": "a"}, {"sku": 2}]}, Order)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(InvalidPayload, match=r"payload: .*`id`"):
        convert({}, Order)


def test_text_is_never_taken_for_a_number() -> None:
    with pytest.raises(InvalidPayload):
        convert("1", int)


def test_an_instance_with_wrong_fields_is_refused_at_enqueue() -> None:
    with pytest.raises(InvalidPayload, match=r"payload\.id"):
        validate_input(Order("x"), Order)  # type: ignore[arg-type]


def test_a_schema_that_cannot_be_used_is_named() -> None:
    with pytest.raises(InvalidOption, match="input="):
        convert({}, int | Order | Note)


def test_a_model_is_validated_by_its_own_method() -> None:
    assert convert({"size": 3}, Model).size == 3
    assert validate_input(Model(3), Model) == {"size": 3}
    with pytest.raises(InvalidPayload, match="payload: size must be an integer"):
        convert({"size": "3"}, Model)


def test_pydantic_models_survive_the_whole_way() -> None:
    pydantic = pytest.importorskip("pydantic")
    mail_type = pydantic.create_model("Mail", to=(str, ...), sent=(datetime, ...), size=(int, 0))
    mail = mail_type(to="a", sent=datetime(2026, 1, 2, tzinfo=UTC))
    assert convert(decode(encode(validate_input(mail, mail_type))), mail_type) == mail
    with pytest.raises(InvalidPayload, match=r"^payload\.size: ") as error:
        convert({"to": "a", "sent": "2026-01-02T00:00:00Z", "size": "hunter2"}, mail_type)
    assert "hunter2" not in str(error.value)


def test_pydantic_models_with_aliases_survive_the_whole_way() -> None:
    pydantic = pytest.importorskip("pydantic")
    mail_type = pydantic.create_model("Mail", sender=(str, pydantic.Field(alias="from")))
    mail = mail_type(**{"from": "a"})
    assert validate_input(mail, mail_type) == {"from": "a"}
    assert convert({"from": "a"}, mail_type) == mail


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_the_text_of_an_object_that_cannot_say_it_names_its_class() -> None:
    assert clean_text(Unspeakable(), 100) == "<Unspeakable whose text cannot be shown>"


def test_text_is_cleaned_of_what_databases_refuse() -> None:
    assert clean_text("a\x00b\ud800c", 100) == "ab\ufffdc"


def test_a_cut_is_visible_and_tells_the_full_length() -> None:
    cut = clean_text("x" * 5000, 100)
    assert len(cut) == 100
    assert cut.endswith("… (cut, 5000 characters in all)")


@given(st.text(st.characters()), st.integers(0, 80))
def test_clean_text_fits_encodes_and_stays_as_it_is(text: str, limit: int) -> None:
    clean = clean_text(text, limit)
    assert len(clean) <= limit
    assert "\x00" not in clean
    clean.encode()
    assert clean_text(clean, limit) == clean


NAIVE = datetime(2026, 1, 2, tzinfo=UTC).replace(tzinfo=None)


@dataclass
class _Visit:
    at: datetime
    notes: dict[str, Any]


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (NAIVE, "payload"),
        ({"order": {"placed": [NAIVE]}}, "payload.order.placed[0]"),
        ({"visit": _Visit(NAIVE, {})}, "payload.visit.at"),
        (_Visit(datetime(2026, 1, 2, tzinfo=UTC), {"next": NAIVE}), "payload.notes.next"),
    ],
)
def test_a_datetime_without_a_zone_is_refused_in_payloads_and_kept_in_results(value: Any, place: str) -> None:
    with pytest.raises(InvalidPayload, match="without a time zone") as refused:
        encode(value)
    assert str(refused.value).startswith(f"{place}: ")
    assert "2026-01-0" in encode(value, what="result")
