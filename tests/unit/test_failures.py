"""What is kept of an error, whatever the error does in its own methods."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain import failures
from sloppyjobs.domain.states import Failure


class SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")

    __repr__ = __str__


class HoldingError(Exception):
    """Cannot be pickled: it holds a lock."""

    def __init__(self) -> None:
        super().__init__("held")
        self.lock = threading.Lock()


def caught(error: BaseException) -> Failure:
    try:
        raise error
    except BaseException as raised:
        return failures.from_exception(raised)


def test_an_error_is_kept_as_class_message_frame_and_traceback() -> None:
    failure = caught(ValueError("no"))
    assert (failure.code, failure.type, failure.message) == (errors.HandlerFailed.code, "ValueError", "no")
    assert failure.frame == f"{__name__}:caught"
    assert failure.traceback is not None
    assert failure.traceback.startswith("Traceback")
    assert "ValueError: no" in failure.traceback


def test_a_class_is_named_with_its_module() -> None:
    assert caught(HoldingError()).type == f"{__name__}.HoldingError"


def test_the_libraries_own_errors_keep_their_code() -> None:
    assert caught(errors.UnknownJob("x")).code == errors.UnknownJob.code


def test_a_code_can_be_given() -> None:
    assert failures.from_exception(ValueError(), code="SOME_CODE").code == "SOME_CODE"


@pytest.mark.parametrize("code", ["x" * 5_000, "a\0b", 5, None, ""])
def test_an_applications_own_code_is_made_to_fit(code: Any) -> None:
    kept = caught(type("OwnError", (errors.JobsError,), {"code": code})()).code
    assert isinstance(kept, str)
    assert 0 < len(kept) <= 64
    assert "\0" not in kept


@pytest.mark.parametrize(
    "error",
    [
        SilentError(),
        ValueError("a\0b"),
        ValueError("lone \ud800"),
        ValueError("x" * 5_000_000),
        ExceptionGroup("many", [ValueError(str(number)) for number in range(500)]),
        KeyboardInterrupt(),
        SystemExit("bye"),
        type("x" * 5_000, (Exception,), {})("long name"),
        type("odd\u202ename 🎉", (Exception,), {})("odd name"),
    ],
    ids=["silent", "NUL", "surrogate", "megabytes", "group", "interrupt", "exit", "long name", "odd name"],
)
def test_every_error_becomes_text_that_can_be_stored(error: BaseException) -> None:
    failure = caught(error)
    limits = {"message": 2_000, "type": 255, "frame": 255, "traceback": 16_000}
    for name, limit in limits.items():
        text = getattr(failure, name)
        assert len(text) <= limit, name
        assert "\0" not in text
        text.encode()


def test_an_error_that_cannot_be_pickled_is_kept_like_any_other() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(HoldingError())
    assert caught(HoldingError()).message == "held"


def test_a_cut_text_says_so() -> None:
    assert "characters in all" in caught(ValueError("x" * 5_000)).message


def test_an_endless_recursion_leaves_a_short_traceback() -> None:
    def forever() -> None:
        forever()

    try:
        forever()
    except RecursionError as error:
        failure = failures.from_exception(error)
    assert failure.type == "RecursionError"
    assert len(failure.traceback or "") < 16_000


def test_a_chain_of_causes_is_kept() -> None:
    try:
        try:
            raise KeyError("first")
        except KeyError as cause:
            raise ValueError("second") from cause
    except ValueError as error:
        trace = failures.from_exception(error).traceback or ""
    assert "KeyError: 'first'" in trace
    assert "ValueError: second" in trace


def test_words_are_a_failure_too() -> None:
    failure = failures.from_text("out of ink\0")
    assert (failure.code, failure.message) == (errors.HandlerFailed.code, "out of ink")
    assert (failure.type, failure.frame, failure.traceback) == (None, None, None)


def test_an_error_that_was_never_raised_has_no_frame() -> None:
    assert failures.from_exception(ValueError("no")).frame is None
