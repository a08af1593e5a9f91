"""The instants that Python can hold, and the text form of one."""

from __future__ import annotations

from datetime import UTC, datetime

# Some days inside of what Python can hold, because drivers answer in the session's zone.
EARLIEST = datetime(1, 1, 3, tzinfo=UTC)
LATEST = datetime(9999, 12, 29, tzinfo=UTC)


def out_of_range(instant: datetime) -> bool:
    """Whether the instant stands for a stored value that Python has no ``datetime`` for."""
    return not EARLIEST < instant < LATEST


def from_text(text: str) -> datetime:
    """The instant in an ISO 8601 text, in UTC; shorter fractions, as other tools write them, are read too."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


def nearest(text: str) -> datetime:
    """The instant in a text; ``EARLIEST`` or ``LATEST`` for any other text, by how it sorts."""
    try:
        return from_text(text)
    except (ValueError, OverflowError):
        return LATEST if text > "9" else EARLIEST
