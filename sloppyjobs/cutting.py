"""Cutting data to a size that can be shown.

Pure: no I/O, no clock.
"""

from __future__ import annotations

from sloppyjobs.payload import clean_text


class Cut:
    """Cuts redacted data to about ``budget`` characters, with a mark wherever something is missing."""

    __slots__ = ("budget", "happened")

    _MAX_TEXT = 2_000
    _MAX_KEY = 200
    _MAX_ITEMS = 100
    _MAX_DEPTH = 20

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.happened = False

    def value(self, obj: object, depth: int) -> object:
        """The data with everything that goes beyond the budget left out."""
        if isinstance(obj, str):
            return self.text(obj, self._MAX_TEXT)
        if not isinstance(obj, dict | list):
            self.budget -= 8
            return obj
        if obj and (depth >= self._MAX_DEPTH or self.budget <= 0):
            self.happened = True
            return "…"
        self.budget -= 4
        return self.mapping(obj, depth) if isinstance(obj, dict) else self.sequence(obj, depth)

    def text(self, text: str, most: int) -> str:
        cut = clean_text(text, min(most, max(self.budget, 40)))
        self.happened |= cut != text
        self.budget -= len(cut) + 4
        return cut

    def mapping(self, items: dict[str, object], depth: int) -> dict[str, object]:
        shown: dict[str, object] = {}
        for taken, (key, item) in enumerate(items.items()):
            if self.full(taken):
                shown["…"] = f"{len(items) - taken} more"
                break
            shown[self.text(key, self._MAX_KEY)] = self.value(item, depth + 1)
        return shown

    def sequence(self, items: list[object], depth: int) -> list[object]:
        shown: list[object] = []
        for taken, item in enumerate(items):
            if self.full(taken):
                shown.append(f"… {len(items) - taken} more")
                break
            shown.append(self.value(item, depth + 1))
        return shown

    def full(self, taken: int) -> bool:
        full = taken >= self._MAX_ITEMS or self.budget <= 0
        self.happened |= full
        return full
