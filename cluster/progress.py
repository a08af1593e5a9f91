"""What ``make cluster`` prints: plain lines of at most 80 columns."""

from __future__ import annotations

import textwrap
import time

WIDTH = 80
_START = time.monotonic()


def title(text: str) -> None:
    """The beginning of a part."""
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def say(text: str) -> None:
    """A step, with the seconds since the beginning."""
    stamp = f"{time.monotonic() - _START:6.1f} s  "
    print(textwrap.fill(text, WIDTH, initial_indent=stamp, subsequent_indent=" " * len(stamp)), flush=True)
