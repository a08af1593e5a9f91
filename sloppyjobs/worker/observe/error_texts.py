"""The texts of errors as the log shows them: without secrets, and in no more than their own lines.

Failures of one cause differ in their messages alone: all of a traceback before its message is redacted once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from sloppyjobs.domain.log_lines import one_line
from sloppyjobs.domain.redaction.redactor import REDACTED, Redactor
from sloppyjobs.domain.states import Failure
from sloppyjobs.logs import indented

REDACTED_CACHE = 64
"""Texts with secrets whose redacted form is cached."""
BEGINNINGS = 256
"""Beginnings of tracebacks that are cached; then the cache is cleared."""


class ErrorTexts:
    """Redacts by the rules of the job; ``redactor_of`` answers None where they are not known."""

    def __init__(self, redactor_of: Callable[[str], Redactor | None]) -> None:
        self._redactor_of = redactor_of
        self._redactors: dict[str, Redactor | None] = {}
        self._redacted = lru_cache(REDACTED_CACHE)(self._redact)
        self._beginnings: dict[tuple[str, str], str | None] = {}

    def line(self, name: str, text: str) -> str:
        """A text of a job of that name, on one line."""
        return one_line(text if self._harmless(name, text) else self._redacted(name, text))

    def error(self, name: str, failure: Failure) -> tuple[str, str]:
        """The message of a failure on one line, and its traceback with each line indented."""
        text, message = failure.traceback or "", failure.message
        if not self._harmless(name, message):
            return one_line(self._redacted(name, message)), indented(self._redacted(name, text))
        if message.isprintable() and text.endswith(f": {message}\n"):
            # A secret is neither in the one part nor in the other, and none reaches across the colon between them.
            beginning = self._beginning(name, text[: -len(message) - 1])
            if beginning is not None:
                return message, beginning + message
        return one_line(message), indented(self._redacted(name, text))

    def _beginning(self, name: str, text: str) -> str | None:
        """What stands before the message, indented; None where it may hold something to hide."""
        known, key = self._beginnings, (name, text)
        if key not in known:
            if len(known) >= BEGINNINGS:
                known.clear()
            known[key] = indented(text) if self._harmless(name, text) else None
        return known[key]

    def _harmless(self, name: str, text: str) -> bool:
        redactor = self._redactor(name)
        return redactor is not None and redactor.harmless(text)

    def _redact(self, name: str, text: str) -> str:
        redactor = self._redactor(name)
        return REDACTED if redactor is None else redactor.text(text)

    def _redactor(self, name: str) -> Redactor | None:
        if name not in self._redactors:
            self._redactors[name] = self._redactor_of(name)
        return self._redactors[name]
