"""Prints the constraints of the oldest set: its own lines, and for all else the versions of constraints.txt."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def pinned(file: Path) -> dict[str, str]:
    """The lines of a file of constraints, by the names of the packages."""
    lines = [line.partition("#")[0].strip() for line in file.read_text().splitlines()]
    return {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower(): line for line in lines if line}


if __name__ == "__main__":
    newest, oldest = pinned(HERE.parent / "constraints.txt"), pinned(HERE / "oldest-constraints.txt")
    print("\n".join((newest | oldest).values()))  # noqa: T201
