"""What is stored of an error: class, message, raising frame and traceback, all cleaned and truncated.

Pure: no I/O, no clock. Methods of an exception that raise do not break the settlement of its job.
"""

from __future__ import annotations

from functools import lru_cache

from sloppyjobs import errors
from sloppyjobs.domain import tracebacks
from sloppyjobs.domain.payload import class_name, clean_text
from sloppyjobs.domain.states import Failure

MESSAGE_LIMIT = 2_000
TRACEBACK_LIMIT = 16_000
NAME_LIMIT = 255
CODE_LIMIT = 64

EXPIRED = Failure(errors.Expired.code, "it had not started when it expired", type="sloppyjobs.errors.Expired")
"""Why a job that had not started in time was cancelled."""


def from_exception(error: BaseException, code: str | None = None) -> Failure:
    """The failure of an attempt whose handler raised."""
    formatted = tracebacks.format_error(error, TRACEBACK_LIMIT)
    return Failure(
        code=_code(code or _own_code(error)),
        message=clean_text(error, MESSAGE_LIMIT),
        type=_clean_name(_class_name(type(error))),
        frame=None if formatted.raised_in is None else _clean_name(formatted.raised_in),
        traceback=formatted.text,
        frames=formatted.frames,
    )


def from_text(message: object, code: str = errors.HandlerFailed.code) -> Failure:
    """The failure that a worker written by others reports as text."""
    return Failure(code=code, message=clean_text(message, MESSAGE_LIMIT))


def from_damage(damage: str) -> Failure:
    """The failure of an attempt that could not begin, because the job's row cannot be read."""
    message = f"the row of this job is damaged, so that it cannot be run: {damage}"
    kind = _class_name(errors.RowUnreadable)
    return Failure(code=errors.RowUnreadable.code, message=clean_text(message, MESSAGE_LIMIT), type=kind)


@lru_cache(maxsize=1_024)
def _clean_name(name: str) -> str:
    """The name of a class or of a place, truncated to the length of the column."""
    return clean_text(name, NAME_LIMIT)[:NAME_LIMIT]


def _code(code: object) -> str:
    """A code of the application's own errors, truncated to the length of the column."""
    if code is None:
        return errors.HandlerFailed.code
    stored = clean_text(code, CODE_LIMIT)[:CODE_LIMIT] if isinstance(code, str) else ""
    return stored or errors.HandlerFailed.code


def _own_code(error: BaseException) -> object:
    if not issubclass(type(error), errors.JobsError):
        return None
    try:
        return getattr(error, "code", None)
    except BaseException:
        return None


def _class_name(kind: type) -> str:
    try:
        return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    except BaseException:
        return class_name(kind)
