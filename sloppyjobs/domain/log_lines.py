"""Log messages of the library stay on one line, whatever the names, ids and errors in them hold.

The name of a worker, a queue or a job may contain a newline, and would otherwise write a line of its own into the log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

# Control characters, line separators, and marks that change the direction of text.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def get_logger(name: str) -> logging.Logger:
    """The logger of that name, whose records have their arguments on one line. Tracebacks stay as they are."""
    logger = logging.getLogger(name)
    logger.addFilter(_FILTER)
    return logger


def one_line(text: str) -> str:
    """The text with its control characters escaped."""
    return text if text.isprintable() else _CONTROL.sub(_escaped, text)


class _OneLine(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, Mapping):
            record.args = {name: _one_line_value(value) for name, value in record.args.items()}
        elif record.args:
            record.args = tuple(_one_line_value(value) for value in record.args)
        return True


def _one_line_value(value: object) -> object:
    """Texts and errors on one line; numbers stay numbers, as the format expects."""
    if isinstance(value, BaseException):
        value = _text_of(value)
    return one_line(value) if isinstance(value, str) else value


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return f"<{type(error).__name__} without words>"


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


_FILTER = _OneLine()
