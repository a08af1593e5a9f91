"""Log messages of the library stay on one line, whatever the names, ids and errors in them hold, and never raise.

The name of a worker, a queue or a job may contain a newline, and would otherwise write a line of its own into the log.
A logging handler or filter of the application may raise: a server of logs is away in the same outage as the database.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

# Control characters, line separators, and marks that change the direction of text.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Log(logging.LoggerAdapter[logging.Logger]):
    """A logger that loses a record where a handler or filter raises, and says so: whoever logs goes on."""

    def log(self, level: int, msg: object, *args: object, **named: Any) -> None:
        """Log; every other method leads here."""
        try:
            super().log(level, msg, *args, **{**named, "stacklevel": named.get("stacklevel", 1) + 1})
        except Exception as error:
            self._say_lost(error)

    def _say_lost(self, error: Exception) -> None:
        """As logging does for handlers that do not raise; without words of the error, which may repeat the record."""
        if not logging.raiseExceptions:
            return
        with suppress(Exception):
            where = "".join(traceback.format_tb(error.__traceback__)[-1:])
            what = f"a record of {self.logger.name} was lost: its logging handler or filter raised"
            sys.stderr.write(f"{what} {type(error).__name__}\n{where}")


def get_logger(name: str) -> Log:
    """The logger of that name, whose records have their arguments on one line. Tracebacks stay as they are."""
    logger = logging.getLogger(name)
    logger.addFilter(_FILTER)
    return Log(logger)


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
