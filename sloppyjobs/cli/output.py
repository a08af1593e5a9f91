"""What commands print: tables for people, one JSON document for machines.

A terminal gets colour and its own width. A pipe gets neither: lines are as long as they need to be.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sloppyjobs import ids

PIPE_WIDTH = 2_000
_LEAST = 8
"""Characters of a text that is cut."""
WIDE = 100
"""From how many columns on a terminal shows everything."""
LONGEST_CELL = 200

# What moves a terminal's cursor, changes its colours, or turns the direction of writing around.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

STATUS_STYLES: Mapping[str, str] = {
    "scheduled": "cyan",
    "waiting": "cyan",
    "queued": "blue",
    "processing": "bold blue",
    "succeeded": "green",
    "failed": "red",
    "retrying": "yellow",
    "dead": "bold red",
    "cancelled": "magenta",
    "paused": "yellow",
    "deleted": "dim",
    "running": "green",
    "quiet": "yellow",
    "draining": "yellow",
    "stopped": "dim",
    "stale": "bold red",
    "timed_out": "red",
    "lost": "red",
    "snoozed": "cyan",
    "suspended": "cyan",
    "released": "dim",
    "ok": "green",
    "warn": "yellow",
    "FAIL": "bold red",
}

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))


def console(*, stderr: bool = False) -> Console:
    """A console on the stream of the moment."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, emoji=False)


def emit(value: Any, as_json: bool, render: Callable[[Console], None]) -> None:
    """Print a value: as one JSON document, or as ``render`` draws it."""
    if as_json:
        click.echo(to_json(value))
    else:
        render(console())


def to_json(value: Any) -> str:
    """Indented JSON; instants in ISO 8601. Control characters are written as JSON's escapes, for a terminal's sake."""
    return _CONTROL.sub(_json_escape, msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def json_line(value: Any) -> str:
    """The same on one line."""
    return _CONTROL.sub(_json_escape, msgspec.json.encode(value).decode())


def _json_escape(found: re.Match[str]) -> str:
    # Such characters stand in JSON's texts only; between them there are no other controls than line ends.
    return f"\\u{ord(found[0]):04x}"


def table(*headings: str, whole: Iterable[str] = (), right: Iterable[str] = (), cut: Iterable[str] = ()) -> Table:
    """A table: ``whole`` columns stay as they are, whatever the width; ``cut`` ones lose their end, others wrap."""
    kept, numbers, shortened = set(whole), set(right), set(cut)
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in headings:
        made.add_column(
            heading,
            no_wrap=heading in kept | shortened,
            overflow="ignore" if heading in kept else "ellipsis" if heading in shortened else "fold",
            justify="right" if heading in numbers else "left",
        )
    return made


def id_for(out: Console) -> Callable[[str], str]:
    """How an id is written: whole, or on a narrow terminal without its middle, as the find box shows it."""
    return ids.shortened if out.width < WIDE else str


def draw(out: Console, made: Table, spare: Iterable[str] = ()) -> None:
    """Print a table; on a narrow terminal without the ``spare`` columns, and with the others cut before whole ones."""
    if out.width < WIDE:
        left_out = set(spare)
        made.columns = [column for column in made.columns if column.header not in left_out]
        _fit(made, out.width)
    out.print(made)


def _fit(made: Table, width: int) -> None:
    """Give whole columns and numbers what they need, and the room that is left to those that are cut."""
    cut = [column for column in made.columns if column.overflow == "ellipsis"]
    taken = 2 * len(made.columns)
    for column in made.columns:
        if column.overflow == "ignore" or column.justify == "right":
            texts = (Text.from_markup(str(cell)) for cell in (column.header, *column.cells))
            column.min_width = max(text.cell_len for text in texts)
            taken += column.min_width
    for column in cut:
        column.max_width = max(_LEAST, (width - taken) // len(cut))


def fields(rows: Iterable[tuple[str, str | None]]) -> Table:
    """Names and values, one below the other; what has no value is left out."""
    made = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows:
        if value is not None:
            made.add_row(name, value)
    return made


def word(status: object) -> str:
    """A status in its colour."""
    text = str(status)
    style = STATUS_STYLES.get(text)
    return f"[{style}]{text}[/]" if style else escape(text)


def plain(text: object, longest: int = LONGEST_CELL) -> str:
    """Text from the database, harmless in a terminal, on one line and not too long."""
    if text is None:
        return ""
    line = " ".join(str(text).split())
    return escape(harmless(line if len(line) <= longest else line[: longest - 1] + "…"))


def inline(value: object) -> str:
    """A value of a field: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def block(text: object) -> str:
    """Text of several lines from the database, harmless in a terminal."""
    return escape(harmless(str(text)))


def harmless(text: str) -> str:
    """The text with its control characters spelled out."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def duration(seconds: float | None) -> str:
    """Seconds in the unit that suits them."""
    if seconds is None:
        return ""
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    for size, unit in _UNITS:
        if seconds >= 1.5 * size or seconds == size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.3g}s"


def age(seconds: float | None) -> str:
    """How long something has been so, in whole units."""
    return "" if seconds is None else duration(max(0.0, float(round(seconds))))


def ago(moment: datetime | None, now: datetime) -> str:
    """An instant as seen from now: ``3m ago``, ``in 2h``."""
    if moment is None:
        return ""
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    text = duration(float(round(abs(seconds))))
    return f"{text} ago" if seconds > 0 else f"in {text}"


def stamp(moment: datetime | None, now: datetime) -> str | None:
    """An instant in full, and as seen from now."""
    return None if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}Z  [dim]({ago(moment, now)})[/]"


def count(value: object) -> str:
    """A number for a table; nothing where it is zero."""
    return str(value) if value else "[dim]0[/]"


def nothing(out: Console, items: Sequence[Any], what: str) -> bool:
    """Say so where a list is empty."""
    if not items:
        out.print(f"[dim]no {what}[/]")
    return not items


def hint(text: str) -> None:
    """A word to the person at the terminal, apart from the data."""
    console(stderr=True).print(f"[dim]{escape(text)}[/]", soft_wrap=True)
