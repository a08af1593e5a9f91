"""Jobs in the archive: their rows in a list, and their pages."""

from __future__ import annotations

from datetime import datetime

from sloppyjobs.views.job import AttemptView, EventView, JobRow, JobView, LogView


class ArchivedRow(JobRow, frozen=True, kw_only=True):
    """An archived job in a list, redacted as jobs are. Its ``status`` is ``deleted``: only deleted jobs get here."""

    archived_at: datetime
    ended_as: str | None = None
    """The status that it was deleted from; None where that is not known any more."""
    restored_as: str | None = None
    """The id of the job that it was restored as last."""
    restored_at: datetime | None = None


class ArchivedView(JobView, frozen=True, kw_only=True):
    """An archived job on its own page: as ``ArchivedRow``, with the latest of what happened to it, oldest first."""

    archived_at: datetime
    ended_as: str | None = None
    restored_as: str | None = None
    restored_at: datetime | None = None
    attempts: tuple[AttemptView, ...] = ()
    events: tuple[EventView, ...] = ()
    logs: tuple[LogView, ...] = ()
    more: bool = False
    """Whether there are attempts, events or log lines before these."""
    readable: bool = True
    """Whether its history could be read."""
