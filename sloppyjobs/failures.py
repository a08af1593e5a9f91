"""What is kept of an error: class, message, raising frame and traceback, all cleaned and cut.

Pure: no I/O, no clock. Nothing that an exception does in its own methods can break the settlement of its job.
"""

from __future__ import annotations

import traceback as tracebacks
from types import TracebackType

from sloppyjobs import errors
from sloppyjobs.payload import clean_text
from sloppyjobs.states import Failure

MESSAGE_LIMIT = 2_000
TRACEBACK_LIMIT = 16_000
NAME_LIMIT = 255
CODE_LIMIT = 64


def from_exception(error: BaseException, code: str | None = None) -> Failure:
    """The failure of an attempt whose handler raised."""
    own = getattr(error, "code", None) if isinstance(error, errors.JobsError) else None
    return Failure(
        code=_code(code or own),
        message=clean_text(error, MESSAGE_LIMIT),
        type=clean_text(_class_name(type(error)), NAME_LIMIT)[:NAME_LIMIT],
        frame=_frame(error.__traceback__),
        traceback=_traceback(error),
    )


def from_text(message: object, code: str = errors.HandlerFailed.code) -> Failure:
    """The failure that a worker written by others reports in words."""
    return Failure(code=code, message=clean_text(message, MESSAGE_LIMIT))


def _code(code: object) -> str:
    """A code of the application's own errors is kept as far as the column can hold it."""
    kept = clean_text(code, CODE_LIMIT)[:CODE_LIMIT] if isinstance(code, str) else ""
    return kept or errors.HandlerFailed.code


def _class_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _frame(trace: TracebackType | None) -> str | None:
    """The innermost frame as ``module:function``; without a line number, which changes with every edit."""
    if trace is None:
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    frame = trace.tb_frame
    name = f"{frame.f_globals.get('__name__', '?')}:{frame.f_code.co_qualname}"
    return clean_text(name, NAME_LIMIT)[:NAME_LIMIT]


def _traceback(error: BaseException) -> str:
    try:
        lines = tracebacks.format_exception(error, limit=-20)
    except Exception:
        return "the traceback could not be formatted"
    return clean_text("".join(lines), TRACEBACK_LIMIT)
