"""Alternating rounds: every system once, then every system again, so that a slow minute hits all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.report import Report
from benchmarks.subject import PeerMissing

Measurement = Callable[[], dict[str, Any]]
Results = dict[str, list[dict[str, Any]]]


def alternate(systems: Mapping[str, Measurement], rounds: int, report: Report | None = None) -> Results:
    """The results of every system that is installed; the others are named in the report's notes."""
    results: Results = {name: [] for name in systems}
    absent: set[str] = set()
    for number in range(rounds):
        for name, measure in systems.items():
            if name in absent:
                continue
            _progress(f"round {number + 1}/{rounds}: {name}")
            try:
                results[name].append(measure())
            except PeerMissing as missing:
                absent.add(name)
                if report is not None:
                    report.note(f"skipped: {name} ({missing})")
    _progress("")
    return {name: found for name, found in results.items() if found}


def chosen(systems: Mapping[str, Measurement], peers: tuple[str, ...]) -> dict[str, Measurement]:
    """Our own systems, and of the others those whose name begins with one of ``peers`` (all, when empty)."""
    ours = ("sloppyjobs", "bare")
    return {name: measure for name, measure in systems.items() if not peers or name.startswith((*ours, *peers))}


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
