"""Results as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

Cell = str | float | int | None


@dataclass
class Report:
    """One benchmark's results: rows of cells under named columns, with what one must know to read them."""

    title: str
    columns: Sequence[str]
    rows: list[list[Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *cells: Cell) -> None:
        """One more row."""
        self.rows.append(list(cells))

    def note(self, text: str) -> None:
        """One more line below the table."""
        self.notes.append(text)


def show(reports: Sequence[Report], *, as_json: bool) -> None:
    """Print the reports."""
    if as_json:
        print(json.dumps([asdict(report) for report in reports], indent=2))
        return
    console = Console() if sys.stdout.isatty() else Console(width=150)
    for report in reports:
        table = Table(title=report.title, title_justify="left")
        for number, name in enumerate(report.columns):
            table.add_column(name, justify="left" if number == 0 else "right")
        for row in report.rows:
            table.add_row(*[_text(cell) for cell in row])
        console.print(table)
        for note in report.notes:
            console.print(f"  {note}", highlight=False, markup=False)
        console.print()


def middle(results: Sequence[Mapping[str, Any]], key: str) -> float:
    """The median of one measured value over the rounds."""
    return median(float(result[key]) for result in results)


def middle_if_known(results: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """As ``middle``; None where it could not be measured."""
    return None if any(result[key] is None for result in results) else middle(results, key)


def ratio(value: float, to: float | None) -> str | None:
    """How many times the other."""
    return None if not to else f"{value / to:.2f}"


def best(rates: Mapping[str, float], peer: str) -> float | None:
    """The highest rate among a peer's configurations: that is the one to be compared with."""
    return max((rate for name, rate in rates.items() if name.startswith(peer)), default=None)


def spread(results: Sequence[Mapping[str, Any]], key: str) -> str:
    """Lowest and highest of the rounds."""
    values = sorted(float(result[key]) for result in results)
    return f"{_text(values[0])}-{_text(values[-1])}"


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.2f}"
