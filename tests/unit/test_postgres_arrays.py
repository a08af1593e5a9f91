"""Lists as binary arrays: what the driver itself would have written, whatever the texts are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sloppyjobs.storage.dialects.postgres.arrays import array, instant_array, text_array
from sloppyjobs.storage.schema.columns import Kind

psycopg = pytest.importorskip("psycopg")

NOW = datetime(2030, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
TEXTS: list[list[Any]] = [
    ["plain", "texts"],
    ["one"],
    ["", ""],
    ["a line\nbreak", "none"],
    ["\n"],
    ["ümlaut", "日本", "x" * 70_000],
    ["with", None],
    ["same", "same", "same"],
    ["", "of", "several", "lengths" * 100],
    ["ümlaut\n", "line\nbreak"],
]


def by_driver(values: list[Any]) -> bytes:
    adapt = psycopg.adapt.Transformer()
    return bytes(adapt.get_dumper(values, psycopg.adapt.PyFormat.BINARY).dump(values))


@pytest.mark.parametrize("texts", TEXTS, ids=range(len(TEXTS)))
def test_texts_are_written_as_the_driver_writes_them(texts: list[Any]) -> None:
    assert bytes(text_array(texts, "utf-8")) == by_driver(texts)
    assert bytes(array(Kind.TEXT, tuple(texts), "utf-8")) == by_driver(texts)


def test_no_texts_are_an_array_without_elements() -> None:
    assert bytes(text_array([], "utf-8"))[12:16] == bytes(4)


def test_texts_have_the_encoding_of_the_connection() -> None:
    assert bytes(text_array(["ü", "line\nbreak"], "latin-1")).endswith(b"\x01\xfc\x00\x00\x00\x0aline\nbreak")


@pytest.mark.parametrize("step", [timedelta(0), timedelta(microseconds=1), timedelta(days=1)])
@pytest.mark.parametrize("number", [1, 2, 300])
def test_instants_are_written_as_the_driver_writes_them(step: timedelta, number: int) -> None:
    expected = [NOW + place * step for place in range(number)]
    assert bytes(instant_array(NOW, step, number)) == by_driver(expected)
    assert bytes(array(Kind.INSTANT, expected, "utf-8")) == by_driver(expected)


def test_an_instant_before_the_year_2000_is_written_as_the_driver_writes_it() -> None:
    old = datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert bytes(instant_array(old, timedelta(microseconds=1), 2)) == by_driver([old, old + timedelta(microseconds=1)])
