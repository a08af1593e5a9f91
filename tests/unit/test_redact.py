"""No secret leaves in a preview, a message or a log line, and what is no secret stays readable."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redaction_cases import (
    HIDDEN_TEXTS,
    HIDDEN_VALUES,
    OTHER_NAMES,
    SECRET_NAMES,
    SECRETS,
    SHOWN_TEXTS,
    SHOWN_VALUES,
    TOKENS,
)

from sloppyjobs.domain.redaction.redactor import REDACTED, Redactor, preview
from sloppyjobs.domain.redaction.secret_names import is_secret_key

CANARY = "cAnArY7xQ9z"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIB" + CANARY + "\nabc=\n-----END RSA PRIVATE KEY-----"

WORDS = st.text(string.ascii_letters + string.digits + " _-.:=/@\"'{}[]\\\n", max_size=30)
PIECES = st.sampled_from(
    [
        "password=",
        "token: ",
        '"secret": "',
        "://u:p@h",
        "Bearer ",
        "Basic ",
        JWT,
        "eyJ",
        PEM,
        "sk-",
        "x",
        "12",
        "-----BEGIN PRIVATE KEY-----",
        "AKIA" + "A" * 16,
        "ghp_" + "a" * 30,
        REDACTED,
        "'",
        '"',
        '\\"',
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "@",
        "\n",
        " ",
        ";",
        "null",
        "cookie: ",
        "passphrase=",
        '{"pin":1}',
        "session id: ",
    ]
)
TEXTS = WORDS | st.lists(PIECES | WORDS, max_size=12).map("".join)
KEYS = st.sampled_from(SECRET_NAMES + OTHER_NAMES) | TEXTS
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


def text(s: str, *keys: str) -> str:
    return Redactor(keys).text(s)


@pytest.mark.parametrize("key", SECRET_NAMES)
def test_a_secret_name_is_known_in_every_spelling(key: str) -> None:
    assert is_secret_key(key)
    assert Redactor().value({key: CANARY}) == {key: REDACTED}


@pytest.mark.parametrize("key", OTHER_NAMES)
def test_a_name_that_only_looks_like_a_secret_is_shown(key: str) -> None:
    assert not is_secret_key(key)
    assert Redactor().value({key: "plain"}) == {key: "plain"}


def test_counts_of_tokens_are_shown_and_tokens_are_not() -> None:
    assert Redactor().value({"max_tokens": 5, "tokens": ["a"]}) == {"max_tokens": 5, "tokens": REDACTED}


def test_a_secret_that_is_a_number_is_hidden() -> None:
    assert Redactor().value({"pin": 1234}) == {"pin": REDACTED}


def test_whether_there_is_a_secret_at_all_is_shown() -> None:
    value = {"password": None, "requires_auth": True}
    assert Redactor().value(value) == value


def test_a_container_under_a_secret_name_is_hidden_whole() -> None:
    assert Redactor().value({"credentials": {"user": "a", "x": [1]}}) == {"credentials": REDACTED}


def test_the_original_is_left_alone() -> None:
    value = {"a": [{"password": "x"}]}
    assert Redactor().value(value) == {"a": [{"password": REDACTED}]}
    assert value == {"a": [{"password": "x"}]}


def test_a_definition_adds_names_of_its_own() -> None:
    assert Redactor(["customerNumber"]).value({"customer_number": 1, "x": 2}) == {
        "customer_number": REDACTED,
        "x": 2,
    }
    assert text("customer number: DE12 and number: 1", "customer_number") == (
        f"customer number: {REDACTED} and number: 1"
    )


def test_a_definition_adds_places_of_its_own() -> None:
    value = {"order": {"card": [{"number": 1, "kind": "x"}]}, "number": 2}
    assert Redactor(["card.number"]).value(value) == {
        "order": {"card": [{"number": REDACTED, "kind": "x"}]},
        "number": 2,
    }


def test_an_object_that_is_not_json_is_shown_as_redacted_text() -> None:
    assert Redactor().value([ValueError("password=x")]) == [f"password={REDACTED}"]


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        (f"jwt {JWT} end", "jwt [redacted] end"),
        (f"prefix.{JWT}", "prefix.[redacted]"),
        (f"a {PEM} b {PEM} c", "a [redacted] b [redacted] c"),
        (PEM[:50], "[redacted]"),
        ("Authorization: Bearer abc.def", "Authorization: [redacted]"),
        ("sent bearer abc123!", "sent bearer [redacted]!"),
        ("sent Basic dXNlcjpwYXNz", "sent Basic [redacted]"),
        ("postgresql://bob:hunter2@db:5432/x", "postgresql://bob:[redacted]@db:5432/x"),
        ("postgresql://bob:p@ss/w#rd@db/x", "postgresql://bob:[redacted]@db/x"),
        ("redis://:pw@h:6379/0, amqp://u:p@h", "redis://:[redacted]@h:6379/0, amqp://u:[redacted]@h"),
        ("https://abcdefghij0123456789@host/x", "https://[redacted]@host/x"),
        ("GET /x?token=abc&y=1", "GET /x?token=[redacted]&y=1"),
        ("{'password': 'hun\\'ter', 'a': 1}", "{'password': '[redacted]', 'a': 1}"),
        ('x {\\"password\\": \\"hunter2\\", \\"b\\": 1}', 'x {\\"password\\": \\"[redacted]\\", \\"b\\": 1}'),
        ("Config(password=abc, user=bob)", "Config(password=[redacted], user=bob)"),
        ("credentials={'a': ['x}']} after", "credentials=[redacted] after"),
        ("Server=x;Password=abc;User=bob", "Server=x;Password=[redacted];User=bob"),
        ("Cookie: a=b; c=d\nnext", "Cookie: [redacted]\nnext"),
        ("passphrase: correct horse staple\nnext", "passphrase: [redacted]\nnext"),
        ("API key: abc123 rest", "API key: [redacted] rest"),
        ("os.environ['PASSWORD'] = 'x'", "os.environ['PASSWORD'] = '[redacted]'"),
        ("password=b'x'", "password=b'[redacted]'"),
        ("password='never closed", "password='[redacted]"),
        ("password=ghp_abcdefghijklmnopqrst!rest x", "password=[redacted] x"),
        ("key AKIAABCDEFGHIJKLMNOP", "key [redacted]"),
        ("ghp_abcdefghijklmnopqrst", "[redacted]"),
        ("gho_abcdefghijklmnopqrst", "[redacted]"),
        ("github_pat_abcdefghijklmnop_qrst", "[redacted]"),
        ("xoxb-123456789-abc", "[redacted]"),
        ("sk-abcdefghijklmnop1234", "[redacted]"),
        ("sk_live_abcdefgh1234 ok", "[redacted] ok"),
    ],
)
def test_a_secret_inside_text_is_hidden(given_text: str, expected: str) -> None:
    assert text(given_text) == expected
    assert Redactor().value({"message": [given_text]}) == {"message": [expected]}


def filled(case: Any, secret: str) -> Any:
    """The case with the secret in it."""
    if isinstance(case, str):
        return case.replace("§", secret)
    if isinstance(case, dict):
        return {key: filled(value, secret) for key, value in case.items()}
    return type(case)(filled(one, secret) for one in case) if isinstance(case, list | tuple) else case


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("case", HIDDEN_TEXTS)
def test_a_secret_in_running_text_is_hidden(case: str, secret: str) -> None:
    given_text = filled(case, secret)
    assert secret in given_text
    assert secret not in text(given_text)
    assert secret not in text(f"ValueError: {given_text}")
    assert secret not in text(f"Traceback:\n  File x\n{given_text}\nand more")
    assert secret not in str(Redactor().value({"message": [given_text]}))
    assert secret not in preview(json.dumps({"message": given_text})).text


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token[0])
def test_a_token_is_known_by_its_shape(token: tuple[str, str, int]) -> None:
    prefix, alphabet, length = token
    secret = (alphabet * length)[:length]
    whole = f"{prefix}{secret}@host/x" if prefix == "https://" else prefix + secret
    for given_text in (whole, f"refused: {whole} (expired)", f'"{whole}"', f"x={whole}&y=1", f"({whole})"):
        assert secret[-8:] not in text(given_text), given_text
        assert secret[-8:] not in preview(json.dumps([given_text])).text


@pytest.mark.parametrize("case", SHOWN_TEXTS)
def test_harmless_text_is_left_alone(case: str) -> None:
    assert text(case) == case
    assert Redactor().value({"message": case}) == {"message": case}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("case", HIDDEN_VALUES, ids=str)
def test_a_secret_in_data_is_hidden(case: Any, secret: str) -> None:
    value = filled(case, secret)
    assert secret in repr(value)
    assert secret not in repr(Redactor().value(value))
    assert secret not in repr(Redactor().value([value]))
    if not any(isinstance(one, tuple) for one in value.values()):
        assert secret not in text(json.dumps(value, ensure_ascii=False))
        assert secret not in preview(json.dumps(value)).text


@pytest.mark.parametrize("case", SHOWN_VALUES, ids=str)
def test_harmless_data_is_left_alone(case: Any) -> None:
    assert Redactor().value(case) == case
    assert preview(json.dumps(case)).value == case


def test_json_inside_a_string_is_redacted_by_its_names() -> None:
    inner = json.dumps({"p\u0061ssword": {"x": CANARY}, "a": 1}).replace("password", "pass\\u0077ord")
    assert text(inner) == '{"password":"[redacted]","a":1}'


def test_a_repeated_name_does_not_hide_behind_a_later_one() -> None:
    assert CANARY not in text('{"password":"' + CANARY + '","password":null}')


def test_a_secret_used_as_a_name_is_hidden() -> None:
    assert Redactor().value({JWT: 1}) == {REDACTED: 1}


def bury(draw: st.DrawFn, core: Any) -> Any:
    for _ in range(draw(st.integers(0, 12))):
        if draw(st.booleans()):
            core = [*draw(st.lists(VALUES, max_size=2)), core]
        else:
            core = {draw(st.sampled_from(OTHER_NAMES)): core, "other": draw(VALUES)}
    return core


@st.composite
def buried_canaries(draw: st.DrawFn) -> Any:
    secret: Any = draw(
        st.sampled_from([CANARY, [CANARY], {"x": [CANARY]}, f"a b {CANARY}", f'{{"x":"{CANARY}"}}', f"'\"{CANARY}"])
    )
    return bury(draw, {draw(st.sampled_from(SECRET_NAMES)): secret})


@given(buried_canaries())
def test_a_canary_under_a_secret_name_never_comes_out(value: Any) -> None:
    assert CANARY not in json.dumps(Redactor().value(value))
    shown = preview(json.dumps(value))
    assert CANARY not in shown.text
    assert CANARY not in repr(shown.value)
    assert CANARY not in text(json.dumps(value))
    assert CANARY not in text(json.dumps(json.dumps(value)))


@given(buried_canaries(), WORDS.filter(lambda s: not set(s) & set("\"'`\\")))
def test_a_canary_in_json_or_python_within_a_message_never_comes_out(value: Any, before: str) -> None:
    assert CANARY not in text(f"{before} payload {json.dumps(value, indent=2)} failed")


@given(VALUES)
def test_redacting_twice_is_redacting_once(value: Any) -> None:
    once = Redactor(["other", "a.b"]).value(value)
    assert Redactor(["other", "a.b"]).value(once) == once


@given(TEXTS)
def test_redacting_text_twice_is_redacting_it_once(s: str) -> None:
    once = text(s)
    assert text(once) == once


@given(TEXTS, st.sampled_from(HIDDEN_TEXTS), TEXTS)
def test_redacting_any_mixture_twice_is_redacting_it_once(before: str, case: str, after: str) -> None:
    once = text(before + filled(case, SECRETS[1]) + after)
    assert text(once) == once


def test_a_preview_is_pretty_and_counts_what_it_hides() -> None:
    shown = preview('{"a":1,"password":"x","log":"Authorization: Bearer abc"}')
    assert shown.value == {"a": 1, "password": REDACTED, "log": f"Authorization: {REDACTED}"}
    assert json.loads(shown.text) == shown.value
    assert "\n" in shown.text
    assert (shown.redacted, shown.truncated, shown.available) == (2, False, True)


@pytest.mark.parametrize("bad", [None, "", "{", f'{{"password":"{CANARY}"', f'{{"a":"{CANARY}\ud800"}}', "[" * 100_000])
def test_what_cannot_be_read_is_unavailable_and_never_raw(bad: str | None) -> None:
    shown = preview(bad)
    assert (shown.text, shown.value, shown.available) == ("unavailable", None, False)


def test_a_preview_knows_the_keys_of_its_definition() -> None:
    assert preview('{"iban":"x"}', keys=["iban"]).value == {"iban": REDACTED}


def test_long_strings_lists_and_objects_are_cut_with_a_mark() -> None:
    shown = preview(json.dumps({"s": "x" * 5000, "l": list(range(500)), "o": {str(n): n for n in range(500)}}))
    assert isinstance(shown.value, dict)
    assert shown.value["s"].endswith("… (cut, 5000 characters in all)")
    assert shown.value["l"][-1] == "… 400 more"
    assert shown.value["o"]["…"] == "400 more"
    assert shown.truncated


def test_depth_is_cut_with_a_mark() -> None:
    shown = preview("[" * 60 + "]" * 60)
    assert shown.truncated
    assert "…" in shown.text


def test_a_secret_on_the_edge_of_a_cut_is_hidden_first() -> None:
    shown = preview(json.dumps("x" * 1960 + " " + JWT + "y" * 3000))
    assert "eyJ" not in shown.text


@given(VALUES, st.integers(0, 400))
def test_the_text_of_a_preview_keeps_within_its_limit(value: Any, limit: int) -> None:
    shown = preview(json.dumps(value), limit=limit)
    assert len(shown.text) <= limit
    assert shown.truncated or json.loads(shown.text) == shown.value
