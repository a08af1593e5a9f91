"""An error as log handlers get it: an exception that can be grouped and shows where it came from, without secrets.

The exception that the handler raised may be in another process, and its frames hold the payload as local variables.
This one has the same name, the redacted message, and frames with the same places and no variables.
"""

from __future__ import annotations

import builtins
from functools import lru_cache
from types import FrameType, FunctionType, TracebackType

from sloppyjobs.domain.log_lines import one_line
from sloppyjobs.domain.states import Failure
from sloppyjobs.domain.tracebacks import Frame
from sloppyjobs.errors import HandlerFailed

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]

_NO_INSTRUCTION = -1
"""In place of an instruction's number: the frame's code is not the code of its line."""


def exc_info(failure: Failure, message: str) -> ExcInfo:
    """The failure as ``logging`` takes exceptions, with a redacted message: class, exception and traceback.

    The class is a ``HandlerFailed``.
    """
    kind = _class_named(failure.type or f"{HandlerFailed.__module__}.{HandlerFailed.__qualname__}")
    error = kind(message)
    traceback = _traceback(failure.frames)
    return kind, error.with_traceback(traceback), traceback


@lru_cache(maxsize=256)
def _traceback(frames: tuple[Frame, ...]) -> TracebackType | None:
    """The traceback through these frames, which failures of one cause share: raising puts others before it."""
    traceback: TracebackType | None = None
    for frame in reversed(frames):
        traceback = TracebackType(traceback, _frame(frame), _NO_INSTRUCTION, max(1, frame.line))
    return traceback


@lru_cache(maxsize=256)
def _class_named(name: str) -> type[HandlerFailed]:
    """A class that is shown under that name."""
    module, _, last = one_line(name).rpartition(".")
    return type(last, (HandlerFailed,), {"__module__": module or "builtins", "__doc__": HandlerFailed.__doc__})


def _raising() -> None:
    raise HandlerFailed


@lru_cache(maxsize=1_024)
def _frame(frame: Frame) -> FrameType:
    """A frame of that file and function, which ran nothing. Python makes frames only for code that runs."""
    code = _raising.__code__.replace(co_filename=frame.file, co_name=frame.function, co_qualname=frame.function)
    run = FunctionType(code, {"__name__": frame.module, "__builtins__": builtins, "HandlerFailed": HandlerFailed})
    try:
        run()
    except HandlerFailed as raised:
        assert raised.__traceback__ is not None and raised.__traceback__.tb_next is not None
        return raised.__traceback__.tb_next.tb_frame
    raise AssertionError
