"""Options that several commands share."""

from __future__ import annotations

import functools
import getpass
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sloppyjobs.domain.states import Status

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])

_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Span(ParamType):
    """A length of time: ``90``, ``30s``, ``15m``, ``2h``, ``7d``, ``4w``; and ``never`` where that makes sense."""

    name = "duration"

    def __init__(self, *, never: bool = False) -> None:
        self._never = never

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        """Seconds; None for ``never``."""
        if isinstance(value, int | float):
            return float(value)
        if self._never and value == "never":
            return None
        match = _SPAN.fullmatch(value.strip())
        if match is None:
            accepted = "seconds, or a number with s, m, h, d or w" + (", or never" if self._never else "")
            self.fail(f"{value!r} is not a length of time; accepted is {accepted}", param, ctx)
        return float(match[1]) * _SECONDS[match[2]]


class Moment(ParamType):
    """An instant: ISO 8601 with an offset, or a length of time before (or, with ``future``, after) now."""

    name = "instant"

    def __init__(self, *, future: bool = False) -> None:
        self._sign = 1 if future else -1

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime | timedelta:
        """The instant, or its distance from now."""
        match = _SPAN.fullmatch(value.strip())
        if match is not None:
            return self._sign * timedelta(seconds=float(match[1]) * _SECONDS[match[2]])
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        if moment is None or moment.utcoffset() is None:
            side = "ahead" if self._sign > 0 else "ago"
            self.fail(
                f"{value!r} is not an instant; accepted is ISO 8601 with an offset, such as "
                f"2030-01-31T09:00:00+01:00, or a length of time such as 2h (so long {side})",
                param,
                ctx,
            )
        return moment


class Names(ParamType):
    """Names with commas between them."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The names."""
        if isinstance(value, tuple):
            return value
        found = tuple(part.strip() for part in value.split(",") if part.strip())
        if not found:
            self.fail("must name at least one", param, ctx)
        return found


class Statuses(Names):
    """Statuses with commas between them."""

    name = "statuses"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The statuses, each one that exists."""
        found = super().convert(value, param, ctx)
        for status in found:
            if status not in tuple(Status):
                self.fail(f"{status!r} is not a status; there are {', '.join(Status)}", param, ctx)
        return found

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG002
        """The statuses that begin so."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415

        return [CompletionItem(status.value) for status in Status if status.startswith(incomplete)]


def at(moment: datetime | timedelta | None, now: Callable[[], datetime]) -> datetime | None:
    """The instant that was meant."""
    return now() + moment if isinstance(moment, timedelta) else moment


def os_user() -> str | None:
    """Who is at the keyboard, as far as the system knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")

ending = click.option(
    "--until",
    type=Moment(future=True),
    metavar="INSTANT",
    help="When it ends by itself: an instant, or 30m for thirty minutes from now.",
)


def signed(command: F) -> F:
    """Who commands, and why; for the audit trail."""
    command = click.option("--reason", metavar="TEXT", help="Why, for the audit trail.")(command)
    return click.option(
        "--actor", metavar="NAME", default=os_user, help="Who, for the audit trail.  [default: the user of the system]"
    )(command)


def paged(size: int = 50) -> Callable[[F], F]:
    """Which page, and how large."""

    def decorate(command: F) -> F:
        command = click.option("--cursor", metavar="CURSOR", help="Go on from a page's next_cursor.")(command)
        return click.option(
            "--page-size", type=click.IntRange(1, 500), default=size, show_default=True, help="How many."
        )(command)

    return decorate


_FILTERS: tuple[tuple[str, Any, str], ...] = (
    ("status", Statuses(), "Statuses, with commas between them."),
    ("queue", str, "A queue."),
    ("name", str, "A job's name."),
    ("tag", str, "One of its tags."),
    ("worker", str, "The worker that holds the job."),
    ("schedule", str, "The schedule that enqueued it."),
    ("batch", str, "The batch it belongs to."),
    ("workflow", str, "The workflow it belongs to."),
    ("correlation-id", str, "A correlation id."),
    ("idempotency-key", str, "An idempotency key."),
    ("business-key", str, "A business key."),
    ("error-code", str, "The code of the last error."),
    ("created-from", Moment(), "Created at or after; an instant, or 2h for two hours ago."),
    ("created-to", Moment(), "Created before."),
    ("run-from", Moment(), "To run at or after."),
    ("run-to", Moment(), "To run before."),
)
_INSTANTS = ("created_from", "created_to", "run_from", "run_to")


def filtered(command: Callable[..., Any]) -> Callable[..., Any]:
    """The filters of a list of jobs, handed to the command as ``filters``, a mapping of those that were given."""

    @functools.wraps(command)
    def gathered(*arguments: Any, **options: Any) -> Any:
        names = [name.replace("-", "_") for name, _, _ in _FILTERS]
        given = {name: options.pop(name) for name in names}
        filters = {name: value for name, value in given.items() if value is not None}
        return command(*arguments, filters=filters, **options)

    decorated: Callable[..., Any] = gathered
    for name, kind, text in reversed(_FILTERS):
        metavar = {"status": "STATUS,…"}.get(name, "INSTANT" if isinstance(kind, Moment) else "TEXT")
        decorated = click.option(f"--{name}", type=kind, metavar=metavar, help=text)(decorated)
    return decorated


def settled(filters: dict[str, Any], now: Callable[[], datetime]) -> dict[str, Any]:
    """The filters with every length of time turned into the instant that was meant."""
    return {name: at(value, now) if name in _INSTANTS else value for name, value in filters.items()}
