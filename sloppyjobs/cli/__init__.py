"""The command line, ``sloppyjobs``. It calls the public ``Jobs`` and ``admin`` objects and nothing below them."""

from __future__ import annotations

from sloppyjobs.cli.root import main

__all__ = ["main"]
