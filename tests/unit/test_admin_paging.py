"""Cursors: what is written is read back, and whatever else is given is refused."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sloppyjobs.errors import InvalidOption
from sloppyjobs.paging import Paging, Position
from sloppyjobs.views import CappedCount, Page

JOBS = Paging("jobs", (datetime, str), ["filters"])
MOMENT = datetime(2030, 1, 1, tzinfo=UTC)
printable = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=128)


def _cursor(*parts: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(parts)).decode().rstrip("=")


@given(st.datetimes(timezones=st.just(UTC)), printable, st.booleans())
def test_a_cursor_leads_back_to_its_key(moment: datetime, id: str, backward: bool) -> None:
    page: Page[str] = JOBS.page([((moment, id), "item")], Position(None, backward), (moment, id))
    cursor = page.previous_cursor if backward else page.next_cursor
    assert JOBS.position(cursor) == Position((moment, id), backward)


@given(st.text() | st.binary().map(lambda data: base64.urlsafe_b64encode(data).decode()))
def test_any_other_text_is_refused_and_nothing_else_happens(text: str) -> None:
    with pytest.raises(InvalidOption, match=r"^cursor="):
        JOBS.position(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(st.lists(JSON, max_size=4))
def test_a_forged_key_under_the_right_digest_is_refused_or_is_a_key(key: list[object]) -> None:
    forged = _cursor("jobs", "n", key, JOBS._digest())
    try:
        after = JOBS.position(forged).after
    except InvalidOption:
        return
    assert after is not None
    assert [type(part) for part in after] == [datetime, str]


@pytest.mark.parametrize(
    "parts",
    [
        ("jobs", "x", [MOMENT.isoformat(), "job_1"]),
        ("jobs", "n", []),
        ("jobs", "n", ["2030-01-01", "job_1"]),
        ("jobs", "n", ["0001-01-01T00:00:00+14:00", "job_1"]),
        ("jobs", "n", [MOMENT.isoformat(), "a\0b"]),
        ("jobs", "n", [MOMENT.isoformat(), "x" * 129]),
        ("jobs", "n", [MOMENT.isoformat(), 7]),
        ("jobs", "n", [MOMENT.isoformat(), "job_1", "more"]),
        ("workers", "n", [MOMENT.isoformat(), "job_1"]),
    ],
)
def test_a_cursor_of_the_wrong_shape_is_refused(parts: tuple[object, ...]) -> None:
    with pytest.raises(InvalidOption, match=r"^cursor="):
        JOBS.position(_cursor(*parts, JOBS._digest()))


@pytest.mark.parametrize("number", [-1, 2**63, 1.5, True, "1"])
def test_a_number_that_no_row_has_is_refused(number: object) -> None:
    events = Paging("events", (int,), "job_1")
    with pytest.raises(InvalidOption, match=r"^cursor="):
        events.position(_cursor("events", "n", [number], events._digest()))


def test_other_filters_have_another_digest() -> None:
    page: Page[str] = JOBS.page([], Position(), (MOMENT, "job_1"))
    assert page.next_cursor is not None
    with pytest.raises(InvalidOption, match="other filters"):
        JOBS._replace(filters=["others"]).position(page.next_cursor)


def test_a_page_is_a_sequence_of_its_items() -> None:
    page = Page(("a", "b"))
    assert (list(page), len(page), page[1], bool(page)) == (["a", "b"], 2, "b", True)
    assert not Page(())
    with pytest.raises(AttributeError):
        page.items = ()  # type: ignore[misc]


def test_a_capped_count_says_so() -> None:
    assert [str(CappedCount(10_000, True)), str(CappedCount(1_234)), int(CappedCount(5))] == ["10,000+", "1,234", 5]
