"""Whether a database's file is still the one that was there before.

Whoever has a file open does not notice that it was removed, or replaced by another: an enqueue would be written to what
nobody sees any more, and be acknowledged and lost.
"""

from __future__ import annotations

import os
from pathlib import Path


class SameFile:
    """Remembers which file is in a place."""

    def __init__(self, path: Path) -> None:
        # The process may change its folder, and connections do not follow.
        self._path = str(path.absolute())
        self._known: tuple[int, int] | None = None

    def was_replaced(self) -> bool:
        """Whether the file is gone, or another one than before; the answer is the same until that is accepted."""
        found: tuple[int, int] | None
        try:
            status = os.stat(self._path)  # noqa: PTH116 - every call to the jobs asks, and a Path takes longer
            found = status.st_dev, status.st_ino
        except FileNotFoundError:
            found = None
        except OSError:
            return False
        if self._known is None:
            self._known = found
        return self._known != found

    def accept(self) -> None:
        """What was open is closed: go on with whatever is there now."""
        self._known = None
