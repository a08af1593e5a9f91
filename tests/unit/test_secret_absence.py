"""The quick proof that a text holds no secret is never wrong, and works for the texts for which it was made."""

from __future__ import annotations

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from redaction_cases import HIDDEN_TEXTS, OTHER_NAMES, SECRET_NAMES, SECRETS, SHOWN_TEXTS, TOKENS

from sloppyjobs.domain.redaction import redactor, secret_absence
from sloppyjobs.domain.redaction.redactor import Redactor
from sloppyjobs.domain.redaction.secret_absence import Absence
from sloppyjobs.domain.redaction.secret_names import NAME_ENDS, NAME_WORDS, is_secret_key

TRACEBACK = """Traceback (most recent call last):
  File "/srv/app/orders/shipping.py", line 9, in ship
    answer = carrier.send(order)
             ^^^^^^^^^^^^^^^^^^^
orders.errors.CarrierFailed: order {} was not shipped: the carrier answered 503
"""
MADE_TOKENS = [
    prefix + (alphabet * length)[:length] + ("@host/x" if prefix == "https://" else "")
    for prefix, alphabet, length in TOKENS
]
KEYS = ("tracking", "card.number", "note-text")

_PIECES = (
    *SECRET_NAMES, *OTHER_NAMES, *NAME_ENDS, *NAME_WORDS, *SECRETS, *MADE_TOKENS, *KEYS,
    *["name", "key", "value", "val", "header", "type", "id", "var", "input", "data", "loc", "'loc'", "user", "b", "B"],
    "=", ": ", ":", " = ", "=>", "%3D", "%", "%77", "\\n", "\\", "\\u0077", "\n", "\n   ", "\n    ", " ", ", ", ",",
    ";",
    "'", '"', "&quot;", "(", ")", "[", "]", "{", "}", "<", ">", "</", "-", "--", " -p", " -u ", "-a ", "--user ", "@",
    "://", "/", ".", "mysql ", "docker login ", "redis-cli ", "ldapsearch ", "sqlcmd ", "Basic ", "bearer ",
    "Failing row contains (", "The duplicate key value is (", "insert into t (", ") values (", "Key (", ")=(",
    ") already exists", "Duplicate entry '", "' for key '", "[SQL: ", "[parameters: ", "input_value=", ", input_type=",
    "...", "'input': ", "identified by ", "key '", "password for x=", "FlyV1 ", "eyJ", "-----BEGIN PRIVATE KEY-----",
    "https://hooks.slack.com/services/", "chat.googleapis.com/v1/spaces/", "[redacted]", "1", "12345678", "x", "word",
    "Abc", "a" * 40, "a/" * 63,
)  # fmt: skip


def alternating(text: str) -> str:
    return "".join(letter.upper() if place % 2 else letter.lower() for place, letter in enumerate(text))


CASES = (str, str, str.upper, str.lower, str.title, str.swapcase, alternating)
PIECES = st.builds(lambda piece, case: case(piece), st.sampled_from(_PIECES), st.sampled_from(CASES))
TEXTS = st.lists(PIECES | st.text(string.printable, max_size=4), max_size=10).map("".join)


def full(text: str, keys: tuple[str, ...]) -> str:
    """The text as the patterns leave it, without the quick proof."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redactor, "absence", lambda _names: NeverProven())
        return Redactor(keys).text(text)


class NeverProven:
    def proven(self, _text: str) -> bool:
        return False


@given(TEXTS, st.sampled_from(((), KEYS)))
@example("name=bpin value=xyzzy", ())
@example("name=BPIN value=xyzzy", ())
@example("name=userPin value=xyzzy", ())
@example("note text: xyzzy", KEYS)
@example("code2fa: xyzzy", ("code2fa",))
@example("FlyV1 xyzzy, FlyV2 xyzzy", ())
@example("call 4111 1111 1111 1112, then 4111111111111111", ())
@example("bEARER xyzzy1234567", ())
@example("BaSiC xyzzy1234567=", ())
@example("<pass:word>xyzzy</pass:word>", ())
@example("12345678:AA" + "x" * 35, ())
@example(f"name={'a/' * 62}/pinvalue=xyzzy", ())
def test_the_quick_way_and_the_full_way_agree(text: str, keys: tuple[str, ...]) -> None:
    assert Redactor(keys).text(text) == full(text, keys)


@pytest.mark.parametrize("text", [*HIDDEN_TEXTS, *SHOWN_TEXTS, *MADE_TOKENS])
def test_they_agree_on_every_text_of_the_redaction_tests(text: str) -> None:
    for secret in SECRETS:
        for around in ("{}", "x {}", "{}\nx", TRACEBACK):
            given = around.format(text.replace("§", secret))
            assert Redactor().text(given) == full(given, ())


@pytest.mark.parametrize("text", HIDDEN_TEXTS)
def test_a_text_with_a_secret_is_never_proven_to_have_none(text: str) -> None:
    assert not any(Absence(frozenset()).proven(text.replace("§", secret)) for secret in SECRETS)


@pytest.mark.parametrize("token", MADE_TOKENS, ids=[one[0] for one in TOKENS])
def test_a_token_is_seen_wherever_it_stands(token: str) -> None:
    assert not any(Absence(frozenset()).proven(around.format(token)) for around in ("{}", "x {} y", "('{}')", "a\n{}"))


@given(PIECES | st.text(string.ascii_letters + string.digits + "_-", max_size=12))
def test_a_name_of_a_secret_is_seen(name: str) -> None:
    if is_secret_key(name):
        assert not Absence(frozenset()).proven(f"x {name}: 1")


def test_a_traceback_is_proven_for_every_message_of_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    find = redactor.secret_shapes.find
    monkeypatch.setattr(redactor.secret_shapes, "find", lambda text: seen.append(text) or find(text))
    for number in range(10):
        assert Redactor().text(TRACEBACK.format(number)) == TRACEBACK.format(number)
    assert seen == []


@given(TEXTS, st.lists(st.sampled_from(string.digits), min_size=1, max_size=5))
@example("call 12345678:AA" + "x" * 35, ["1"])
@example("AKIA1234567890ABCDEF", ["0", "7"])
def test_a_text_is_not_proven_by_another_that_differs_in_its_digits(text: str, digits: list[str]) -> None:
    places = iter(digits * (len(text) + 1))
    other = "".join(next(places) if one in string.digits else one for one in text)
    asked_before = Absence(frozenset())
    asked_before.proven(other)
    assert asked_before.proven(text) == Absence(frozenset()).proven(text)


def test_texts_that_differ_in_their_digits_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found, parts = Absence(frozenset()), []
    look = Absence._parts_harmless
    monkeypatch.setattr(Absence, "_parts_harmless", lambda self, text: parts.append(text) or look(self, text))
    assert all(found.proven(f"order {number} was not shipped: status {number}") for number in range(100, 200))
    assert len(parts) == 1
    # A word that is long enough to be a token is looked at each time.
    assert all(found.proven(f"order {number}-of-the-customer was not shipped") for number in range(100, 110))
    assert len(parts) == 11


def test_a_definitions_own_names_are_seen_in_any_spelling() -> None:
    own = Redactor(("trackingCode",))
    assert own.text("tracking_code: xyzzy") == "tracking_code: [redacted]"
    assert Redactor().text("tracking_code: xyzzy") == "tracking_code: xyzzy"


def test_parts_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_absence, "MOST_PARTS", 3)
    found = Absence(frozenset())
    for number in range(20):
        assert found.proven(f"order {'x' * number} was not shipped"[:60])
        assert len(found._harmless) <= 3
        assert len(found._shapes) <= 3
    assert not found.proven("token: xyzzy")
    assert "token: xyzzy" not in found._harmless


@pytest.mark.parametrize("name", sorted({*NAME_ENDS, *NAME_WORDS}))
def test_every_secret_name_has_one_of_the_stems_that_are_looked_for_first(name: str) -> None:
    assert any(stem in name for stem in secret_absence.STEMS)


def test_lines_that_are_known_to_be_harmless_say_nothing_of_the_others() -> None:
    absence = Absence(frozenset())
    harmless = TRACEBACK.format(1)
    assert absence.proven(harmless)
    assert absence.proven(TRACEBACK.format(2))
    assert not absence.proven(harmless + "password: xyzzy")
    assert not absence.proven("password: xyzzy\n" + harmless)
    assert not absence.proven(harmless.replace("ship\n", "ship password=xyzzy\n"))
    assert absence.proven(harmless)


def test_the_lines_that_many_texts_share_are_cached_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_absence, "MOST_STARTS", 3)
    absence = Absence(frozenset())
    for number in range(10):
        assert absence.proven(f"line {number}\nlast line")
        assert len(absence._harmless_starts) <= 3
    long = "a line\n" * secret_absence.LONGEST_START
    assert absence.proven(long + "last line")
    assert all(len(start) <= secret_absence.LONGEST_START for start in absence._harmless_starts)
