"""JSON merge patch: the examples of RFC 7396, and properties."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sloppyjobs.domain.merge_patch import MOST_KEYS, changed_keys, merged

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("value", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_standard(value: Any, patch: Any, result: Any) -> None:
    assert merged(value, patch) == result


@given(JSON, JSON)
def test_a_patch_twice_is_a_patch_once(value: Any, patch: Any) -> None:
    once = merged(value, patch)
    assert merged(once, patch) == once
    assert changed_keys(once, merged(once, patch)) == []


@given(JSON, JSON)
def test_keys_are_told_exactly_where_something_changed(before: Any, after: Any) -> None:
    assert bool(changed_keys(before, after)) == (repr(before) != repr(after)) or sorted_alike(before, after)


def sorted_alike(before: Any, after: Any) -> bool:
    """Objects whose keys stand in another order are the same."""
    return bool(before == after)


def test_keys_are_pointers_and_bounded() -> None:
    assert changed_keys({"a": {"b/c": 1, "~": 2}}, {"a": {"b/c": 2}}) == ["/a/b~1c", "/a/~0"]
    assert changed_keys(1, 2) == ["/"]
    assert changed_keys({"a": 1}, {"a": 1.0}) == ["/a"]
    many = changed_keys({}, {str(number): 1 for number in range(MOST_KEYS + 5)})
    assert (len(many), many[-1]) == (MOST_KEYS + 1, "and 5 more")
