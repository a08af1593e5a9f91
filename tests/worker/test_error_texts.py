"""What the log shows of an error is what redacting the whole of it gives, however it is put together."""

from __future__ import annotations

import pytest

from sloppyjobs.domain import failures
from sloppyjobs.domain.log_lines import one_line
from sloppyjobs.domain.redaction.redactor import REDACTED, Redactor
from sloppyjobs.logs import indented
from sloppyjobs.worker.observe import error_texts
from sloppyjobs.worker.observe.error_texts import ErrorTexts


class CardRefused(Exception):
    pass


class Password(Exception):
    """A class whose name says that a secret follows."""


def _failure(error: BaseException) -> failures.Failure:
    try:
        raise error
    except BaseException as raised:
        return failures.from_exception(raised)


MESSAGES = [
    "order 17 was not shipped",
    "order 17: the carrier answered 503: try again",
    "",
    " begins with a blank",
    ": begins with a colon",
    '{"password": "hunter2"}',
    "password=hunter2",
    "the card 4111 1111 1111 1111 was refused",
    "hunter2",
    "two\nlines",
    "two\nlines: password: hunter2",
    "a bell \x07 and a tab\t",
    "Größe 12 passt nicht",
    "ends with a colon: ",
    "x" * 5_000,
]


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("kind", [CardRefused, Password, ValueError, NameError])
def test_an_error_is_shown_as_redacting_all_of_it_shows_it(kind: type[Exception], message: str) -> None:
    redactor = Redactor(["order"])
    texts = ErrorTexts(lambda _name: redactor)
    failure = _failure(kind(message))
    expected = one_line(redactor.text(failure.message)), indented(redactor.text(failure.traceback or ""))
    # The second time by what the first has cached.
    assert texts.error("ship", failure) == expected
    assert texts.error("ship", failure) == expected
    assert texts.line("ship", failure.message) == expected[0]


def test_a_message_does_not_escape_by_the_beginning_of_another() -> None:
    redactor = Redactor()
    texts = ErrorTexts(lambda _name: redactor)
    harmless, secret = (_failure(CardRefused(one)) for one in ("order 17", "password=hunter2"))
    assert "order 17" in texts.error("ship", harmless)[1]
    assert "hunter2" not in "".join(texts.error("ship", secret))


def test_names_have_rules_of_their_own() -> None:
    rules = {"ship": Redactor(), "charge": Redactor(["shelf"])}
    texts = ErrorTexts(rules.__getitem__)
    failure = _failure(CardRefused("shelf=B12"))
    assert "B12" in "".join(texts.error("ship", failure))
    assert "B12" not in "".join(texts.error("charge", failure))


def test_nothing_is_shown_where_the_rules_are_not_known() -> None:
    texts = ErrorTexts(lambda _name: None)
    assert texts.error("ship", _failure(CardRefused("order 17"))) == (REDACTED, f"  {REDACTED}")
    assert texts.line("ship", "order 17") == REDACTED


def test_the_cache_of_beginnings_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_texts, "BEGINNINGS", 2)
    texts = ErrorTexts(lambda _name: Redactor())
    for name in "abcde":
        texts.error(name, _failure(CardRefused("order 17")))
    assert len(texts._beginnings) <= 2
