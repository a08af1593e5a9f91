"""Steps, sleeps and signals of one attempt: what a handler has asked for by name, and what it was told."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.domain.states import Suspended
from sloppyjobs.domain.steps import (
    MOST,
    RESULTS_LIMIT,
    Answer,
    Kept,
    StepKind,
    StepState,
    decode_result,
    encode_result,
    name_of,
)

if TYPE_CHECKING:
    from sloppyjobs.domain.model import Claim
    from sloppyjobs.worker.context import Reports, Signal


class StepLog:
    """The steps of one attempt. Earlier attempts' are read when the first one is asked for, and only then."""

    def __init__(self, claim: Claim, signal: Signal, reports: Reports) -> None:
        self._claim = claim
        self._signal = signal
        self._reports = reports
        self._lock = threading.Lock()
        # Of a first attempt nothing can be there, except signals, which the store knows.
        self._known: dict[tuple[StepKind, str], Kept] | None = {} if claim.attempt == 1 else None
        self._asked: set[tuple[StepKind, str]] = set()
        self._size = 0
        self.suspended: Suspended | None = None

    @property
    def must_read(self) -> bool:
        """Whether the next question goes to the store, whatever it is about."""
        return self._known is None

    # Steps

    def recall(self, name: str) -> Kept | None:
        """What an earlier attempt has kept under the name of a step; None where the step is to be run."""
        return self._begin(StepKind.STEP, "name", name)

    def keep(self, name: str, function: Callable[..., Any], value: Any, seconds: float) -> Any:
        """Keep what a step's function has returned, and return it as later attempts will get it."""
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise errors.InvalidStep(
                f"step {name!r} is a coroutine, which only the handler of a coroutine can await; "
                "define the handler with async def, and await ctx.step(...)"
            )
        result = encode_result(name, value)
        # Before it is written: what does not fit now would not fit later.
        shown = decode_result(name, result, function)
        with self._lock:
            self._size += len(result)
            size, place = self._size, len(self._all())
        if size > RESULTS_LIMIT:
            raise errors.InvalidStep(
                f"step {name!r} was not kept: the results of all steps have {size:,} bytes, the limit is "
                f"{RESULTS_LIMIT:,}; keep large data elsewhere, and return where it is"
            )
        if not self._reports.keep_step(self._claim, name, result, seconds, place):
            raise self._stale(f"step {name!r} was not kept")
        return shown

    # Sleeps and signals

    def sleep(self, name: str, seconds: float | timedelta) -> None:
        """Return when the sleep is over; suspend the attempt before that."""
        wanted = options.seconds("seconds", seconds)
        kept = self._begin(StepKind.SLEEP, "name", name)
        if kept is None or kept.state is not StepState.DONE:
            answer = self._ask(StepKind.SLEEP, name, wanted)
            if answer.state is StepState.WAITING:
                self._suspend(f"sleeps: {name}", answer.seconds)

    def wait_for(self, name: str, timeout: float | timedelta | None) -> Any:
        """The value of the signal; suspend the attempt while it has not come."""
        wanted = None if timeout is None else options.seconds("timeout", timeout)
        kept = self._begin(StepKind.SIGNAL, "name", name)
        if kept is not None and kept.state in (StepState.DONE, StepState.TIMED_OUT):
            answer = Answer(kept.state, kept.result)
        else:
            answer = self._ask(StepKind.SIGNAL, name, wanted)
        if answer.state is StepState.WAITING:
            self._suspend(f"waits for the signal {name}", answer.seconds)
        if answer.state is StepState.TIMED_OUT:
            raise errors.SignalTimeout(f"the signal {name!r} did not come in time")
        return decode_result(name, answer.result)

    def _ask(self, kind: StepKind, name: str, seconds: float | None) -> Answer:
        answer = self._reports.ask_step(self._claim, kind, name, seconds, len(self._all()))
        if answer is None:
            raise self._stale(f"{kind.value} {name!r} was not begun")
        return answer

    def _suspend(self, message: str, seconds: float | None) -> None:
        self.suspended = Suspended(options.LONGEST if seconds is None else max(0.0, seconds), message)
        raise errors.Suspension(message)

    # All of them

    def _begin(self, kind: StepKind, what: str, name: object) -> Kept | None:
        """Check the name, and find what earlier attempts have left under it."""
        text = name_of(what, name)
        self._signal.raise_if_aborted()
        if self.suspended is not None:
            raise errors.Suspension(self.suspended.message)
        with self._lock:
            if self._known is None:
                self._known = {(one.kind, one.name): one for one in self._reports.known_steps(self._claim)}
                self._size = sum(len(one.result or "") for one in self._known.values())
            asked = (kind, text)
            if asked in self._asked:
                raise errors.InvalidStep(
                    f"{kind.value} {text!r} was asked for before in this attempt; every one needs a name of its own, "
                    f"such as {text + '-2'!r}"
                )
            if asked not in self._known and len(self._all()) >= MOST:
                raise errors.InvalidStep(f"{kind.value} {text!r} is one too many: a job can have {MOST:,} of them")
            self._asked.add(asked)
            return self._known.get(asked)

    def _all(self) -> set[tuple[StepKind, str]]:
        return self._asked | set(self._known or ())

    def _stale(self, what: str) -> errors.StaleLease:
        return errors.StaleLease(f"{what}: attempt {self._claim.attempt} of job {self._claim.id} has ended")


def only_suspended(error: BaseException) -> bool:
    """Whether it is a suspension, or a group of nothing else, as a task group raises it."""
    if isinstance(error, BaseExceptionGroup):
        return all(only_suspended(one) for one in error.exceptions)
    return isinstance(error, errors.Suspension)
