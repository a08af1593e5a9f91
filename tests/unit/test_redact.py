"""No secret leaves in a preview, a message or a log line, and what is no secret stays readable."""

from __future__ import annotations

import json
import string
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sloppyjobs.redact import REDACTED, Redactor, preview
from sloppyjobs.secret_names import is_secret_key

CANARY = "cAnArY7xQ9z"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIB" + CANARY + "\nabc=\n-----END RSA PRIVATE KEY-----"

SECRET_NAMES = """
password passwd passphrase secret token apiKey API-KEY api_key authorization auth cookie Set-Cookie session
sessionId session_id credential credentials private_key accessKey client_secret refreshToken bearer jwt pin
cvv card_number ssn connectionString dsn user_password github_token x-api-key dbPassword password_hash
passwordConfirmation PIN_code password1 DB_PASS AWS_SECRET_ACCESS_KEY oauth_token proxy-authorization
userpassword aws_access_key_id tokens userPIN JSESSIONID csrf_token token_value session_key
api_key_v2 PASSWORD passWord
"""
OTHER_NAMES = """
tokens_used author secretary pinned session_count authors tokenizer token_type token_count key idempotency_key
business_key primary_key error_code compass shipping possession keyboard password_policy authority authored_by
name id passport session_duration auth_method expires_in passwordless spinner mapping correlation_id
password_changed_at
"""
SECRET_KEYS = SECRET_NAMES.split()
OTHER_KEYS = OTHER_NAMES.split()

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
KEYS = st.sampled_from(SECRET_KEYS + OTHER_KEYS) | TEXTS
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


def text(s: str, *keys: str) -> str:
    return Redactor(keys).text(s)


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_a_secret_name_is_known_in_every_spelling(key: str) -> None:
    assert is_secret_key(key)
    assert Redactor().value({key: CANARY}) == {key: REDACTED}


@pytest.mark.parametrize("key", OTHER_KEYS)
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
    assert Redactor(["customerIban"]).value({"customer_iban": 1, "x": 2}) == {
        "customer_iban": REDACTED,
        "x": 2,
    }
    assert text("customer iban: DE12 and iban: 1", "customer_iban") == f"customer iban: {REDACTED} and iban: 1"


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


@pytest.mark.parametrize(
    "harmless",
    [
        "",
        "no secret here: fine",
        "https://host:80/a?to=x@y.com",
        "ssh://git@github.com/x",
        "Basic authentication failed",
        "the bearer of news",
        "KeyError: 'token'",
        "tokens: 12",
        "password=None",
        "risk-assessment-of-the-quarter",
        "a.b.c eyJ",
        "author: Ann",
        "2026-01-01T00:00:00Z",
        '{"a":[1,2]}',
    ],
)
def test_harmless_text_is_left_alone(harmless: str) -> None:
    assert text(harmless) == harmless


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
            core = {draw(st.sampled_from(OTHER_KEYS)): core, "other": draw(VALUES)}
    return core


@st.composite
def buried_canaries(draw: st.DrawFn) -> Any:
    secret: Any = draw(
        st.sampled_from([CANARY, [CANARY], {"x": [CANARY]}, f"a b {CANARY}", f'{{"x":"{CANARY}"}}', f"'\"{CANARY}"])
    )
    return bury(draw, {draw(st.sampled_from(SECRET_KEYS)): secret})


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


HOSTILE = [
    "a",
    "a=",
    "token=",
    "eyJ",
    "eyJa.",
    "://a:",
    "://a:b@",
    "-----BEGIN PRIVATE KEY",
    "bearer ",
    "sk-",
    "-----BEGIN PRIVATE KEY-----x",
    'token=\\"',
    "token='",
    "token=[",
    "[",
    '{"a":',
    "AKIA",
    "a ",
    "a.",
    '"',
    '\\"',
    "cookie: ",
    "token=[redacted]",
    "\\",
    " ",
    "password ",
    "@",
    "token=[]",
    "token='x' ",
]


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("lead", ["", "token", "password: ", "://u:"])
def test_a_hostile_megabyte_takes_seconds_at_most(piece: str, lead: str) -> None:
    started = time.perf_counter()
    text(lead + piece * (1_000_000 // len(piece)))
    # A quadratic search would take hours.
    assert time.perf_counter() - started < 20


def test_a_hostile_nest_of_secrets_takes_seconds_at_most() -> None:
    started = time.perf_counter()
    assert text("token=[" * 100_000 + "]" * 100_000) == f"token={REDACTED}"
    assert time.perf_counter() - started < 20


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
