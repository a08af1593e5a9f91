"""How much of some data is shown.

Pure: no I/O, no clock.
"""

from __future__ import annotations


class Truncation:
    """Counts what is shown against a budget of about so many characters; ``truncated`` once something is left out."""

    __slots__ = ("budget", "truncated")

    MAX_TEXT = 2_000
    MAX_KEY = 200
    _MAX_ITEMS = 100
    _MAX_DEPTH = 20

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.truncated = False

    def room(self, most: int) -> int:
        """How many characters of a text may be shown; a few always."""
        return min(most, max(self.budget, 40))

    def scalar(self) -> None:
        """A number or the like is shown."""
        self.budget -= 8

    def text(self, text: str, most: int, length: int) -> str:
        """The text, with a mark of its full length where something is missing."""
        room = self.room(most)
        if len(text) > room or length > len(text):
            self.truncated = True
            marker = f"… (cut, {max(length, len(text))} characters in all)"
            text = text[: room - len(marker)] + marker if len(marker) < room else text[:room]
        self.budget -= len(text) + 4
        return text

    def enter(self, depth: int, empty: bool) -> bool:
        """Whether the items of a container are shown."""
        if not empty and (depth >= self._MAX_DEPTH or self.budget <= 0):
            self.truncated = True
            return False
        self.budget -= 4
        return True

    def full(self, taken: int) -> bool:
        """Whether no further item is shown."""
        full = taken >= self._MAX_ITEMS or self.budget <= 0
        self.truncated |= full
        return full
