"""Steps, sleeps and signals of a handler: what is kept of each, by name. Pure: no I/O, no clock."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, get_type_hints

from sloppyjobs.domain import options, payload
from sloppyjobs.errors import InvalidOption, InvalidPayload, InvalidStep

MOST = 1_000
"""Steps, sleeps and signals that one job may have."""
RESULTS_LIMIT = 16 * payload.DEFAULT_LIMIT
"""Bytes of JSON that the results of one job's steps may have together: a later attempt reads all of them."""


class StepKind(StrEnum):
    """What a handler asked for."""

    STEP = "step"
    SLEEP = "sleep"
    SIGNAL = "signal"


class StepState(StrEnum):
    """What has become of it."""

    EARLY = "early"
    """A signal that came before it was asked for."""
    WAITING = "waiting"
    READY = "ready"
    """The sleep is over, the signal has come or has timed out; the handler has not been told yet."""
    DONE = "done"
    TIMED_OUT = "timed_out"


class Kept(NamedTuple):
    """What earlier attempts have left under a name; ``result`` is JSON."""

    kind: StepKind
    name: str
    state: StepState
    result: str | None = None


class Answer(NamedTuple):
    """What a sleep or a wait for a signal comes to: done, timed out, or waiting for ``seconds`` more at most."""

    state: StepState
    result: str | None = None
    seconds: float | None = None


def told(kind: StepKind, result: str | None) -> StepState:
    """What the handler is told of something that is ready: a signal without a value has timed out."""
    return StepState.TIMED_OUT if kind is StepKind.SIGNAL and result is None else StepState.DONE


def name_of(what: str, name: object) -> str:
    """The name of a step, a sleep or a signal; ``InvalidOption`` says what is wrong with it."""
    text = options.text(what, name)
    if text != text.strip():
        raise options.refuse(what, name, "must not begin or end with a space")
    return text


def encode_result(name: str, value: object) -> str:
    """The result of a step as JSON; ``InvalidPayload`` names the step and the place."""
    try:
        return payload.encode(value, what="result")
    except InvalidPayload as error:
        raise InvalidPayload(
            f"step {name!r} was not kept: {error}", field=f"{name}.{error.field}", reason=error.reason
        ) from None


def decode_result(name: str, result: str | None, function: Callable[..., Any] | None = None) -> Any:
    """The value of a stored result, in the type that the step's function says that it returns.

    ``InvalidStep`` where it does not fit that type, or is not JSON.
    """
    try:
        value = None if result is None else payload.decode(result)
        wanted = None if function is None else _return_type(function)
        return payload.convert(value, wanted, what="result")
    except (InvalidPayload, InvalidOption) as error:
        called = "" if function is None else f" of {getattr(function, '__name__', function)!r}"
        raise InvalidStep(f"the result of step {name!r} does not fit the return type{called}: {error}") from error


@lru_cache(maxsize=1_024)
def _return_type(function: Callable[..., Any]) -> Any:
    """What the function is annotated to return; None where that says nothing."""
    try:
        wanted = get_type_hints(inspect.unwrap(function)).get("return")
    except Exception:
        # Names that exist for type checkers only, and callables that have no annotations.
        return None
    return None if wanted in (Any, object, type(None)) else wanted
