"""The first fields of a payload, for a row of a list: short, and without a secret however the payload is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sloppyjobs.domain.payload_summary import LENGTH, START, summary
from sloppyjobs.domain.redaction.redactor import Redactor

SECRET = "hunter2-canary-9f31"


def line(payload: Any, *keys: str) -> str:
    return summary(Redactor(keys), json.dumps(payload)[: START + 1]).text


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        ({"template": "receipt", "order": 48213}, '{"template": "receipt", "order": 48213}'),
        ({"a": 1, "b": None, "c": True, "d": 2}, '{"a": 1, "b": null, "c": true, …}'),
        ({"sizes": [320, 640], "src": "a.tif", "options": {}}, '{"src": "a.tif", "sizes": […], "options": {}}'),
        ({"to": "ada", "password": SECRET}, '{"to": "ada", "password": [redacted]}'),
        ({}, "{}"),
        ([1, "two", {"three": 3}, 4], '[1, "two", {…}, …]'),
        (["--password", SECRET], '["--password", [redacted]]'),
        ("text", '"text"'),
        (None, "null"),
        (1.5, "1.5"),
    ],
)
def test_the_first_fields_are_shown_in_one_line(payload: Any, shown: str) -> None:
    assert line(payload) == shown


def test_a_line_is_short_however_long_its_fields_are() -> None:
    shown = line({"k" * 300: "v" * 900, "other": "w" * 900})
    assert len(shown) <= LENGTH
    assert shown.startswith('{"kkk') and shown.endswith("…}")
    assert len(line({"\x01" * 300: "\x02" * 900})) <= LENGTH


@pytest.mark.parametrize("text", ["", "{", "nonsense", '{"a": }', "\ud800", '{"a": "\\ud800"}', "[" * 1_500])
def test_what_is_not_json_is_not_shown(text: str) -> None:
    found = summary(Redactor(), text)
    assert (found.available, found.text) == (False, "unavailable")


def test_the_keys_of_a_definition_are_hidden() -> None:
    assert line({"voucher": SECRET, "n": 1}, "voucher") == '{"voucher": [redacted], "n": 1}'


def test_a_secret_inside_a_text_is_hidden() -> None:
    assert SECRET not in line({"url": f"smtp://mailer:{SECRET}@relay.internal:587"})
    assert SECRET not in line({"body": json.dumps({"password": SECRET})})


def test_a_value_whose_name_is_another_value_is_hidden() -> None:
    assert line({"name": "DB_PASSWORD", "value": SECRET}) == '{"name": "DB_PASSWORD", "value": [redacted]}'


def test_a_value_whose_name_may_follow_beyond_the_cut_is_hidden() -> None:
    shown = line({"n": 1, "value": SECRET, "filler": "x" * START, "name": "DB_PASSWORD"})
    assert shown == '{"n": 1, "value": [redacted], …}'


def test_of_a_value_that_is_cut_nothing_is_shown() -> None:
    assert line({"order": 5, "body": f"{SECRET} " * START}) == '{"order": 5, …}'
    assert line({"body": f"{SECRET} " * START}) == "{…}"
    assert line(["x" * START]) == "[…]"
    assert line("x" * START) == "…"


def test_a_number_that_is_cut_is_not_shown_as_another_number() -> None:
    text = '{"a": 1, "b": ' + "7" * START
    assert summary(Redactor(), text[: START + 1]).text == '{"a": 1, …}'


def test_a_text_with_odd_characters_is_shown_as_it_is_or_escaped() -> None:
    assert line({"a": "żółć 😀", "b": "x\x00\x1b[2J", "c": "</bdi><script>"}) == (
        '{"a": "żółć 😀", "b": "x\\u001b[2J", "c": "</bdi><script>"}'
    )


NAMES = st.sampled_from(["password", "api_key", "token", "voucher", "order", "to", "value", "name", "body", "filler"])
FILLER = st.text(max_size=40) | st.integers() | st.none() | st.text(min_size=1).map(lambda text: text * 200)
HIDDEN = st.sampled_from(["password", "api_key", "voucher", "auth_token"])


@st.composite
def payloads(draw: st.DrawFn) -> dict[str, Any]:
    """Members of any size, and secrets under names that say so: at any depth, before the cut, in it and after it."""
    secret: Any = draw(st.sampled_from([SECRET, [SECRET], {"inner": SECRET}, f"{SECRET} " * 300]))
    under = {draw(HIDDEN): secret}
    if draw(st.booleans()):
        under = {"options": under}
    members = list(draw(st.dictionaries(NAMES, FILLER, max_size=6)).items())
    place = draw(st.integers(0, len(members)))
    return dict([*members[:place], *under.items(), *members[place:], *under.items()])


@settings(max_examples=150, deadline=None)
@given(payload=payloads(), cut=st.integers(1, START + 1), ascii=st.booleans())
def test_no_secret_is_ever_shown_wherever_a_payload_is_cut(payload: Any, cut: int, ascii: bool) -> None:
    text = json.dumps(payload, ensure_ascii=ascii)
    redactor = Redactor(("voucher",))
    for start in (text[: START + 1], text[:cut], (text + " " * START)[: START + 1]):
        found = summary(redactor, start)
        assert SECRET not in found.text
        assert SECRET not in repr(found.value)
        assert len(found.text) <= LENGTH


@settings(max_examples=150, deadline=None)
@given(payload=payloads())
def test_a_payload_that_is_read_whole_is_redacted_as_on_its_own_page(payload: Any) -> None:
    text = json.dumps(payload)
    found = summary(Redactor(("voucher",)), text[: START + 1])
    page = Redactor(("voucher",)).json(text, limit=10**6).value
    assert isinstance(found.value, dict) and isinstance(page, dict)
    for key, value in found.value.items():
        if len(text) <= START and isinstance(page.get(key), str | int | None) and len(str(page.get(key))) < 40:
            assert value == page[key]
