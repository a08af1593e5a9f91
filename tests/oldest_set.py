"""Prints the constraints of the oldest set: its own lines, and for all else the versions of constraints.txt."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def pinned(file: Path) -> dict[str, list[str]]:
    """The lines of a file of constraints, by the names of the packages: several where versions of Python differ."""
    found: dict[str, list[str]] = {}
    for line in file.read_text().splitlines():
        pin = line.partition("#")[0].strip()
        if pin:
            found.setdefault(re.sub(r"[-_.]+", "-", pin.partition("==")[0]).lower(), []).append(pin)
    return found


if __name__ == "__main__":
    newest, oldest = pinned(HERE.parent / "constraints.txt"), pinned(HERE / "oldest-constraints.txt")
    print("\n".join(pin for pins in (newest | oldest).values() for pin in pins))  # noqa: T201
