"""Jobs that a purge moved to the archive: found, read, and restored as new ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from sloppyjobs.domain.model import Job, NewJob
from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.storage.ports.reads import Key, Scope


class ArchiveQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What a search of the archive asks for. Values are checked already; None where nothing was said."""

    ids: tuple[str, ...] | None = None
    key: str | None = None
    """A business key, or an idempotency key."""
    business_key: str | None = None
    idempotency_key: str | None = None
    name: str | None = None
    queue: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    scope: Scope = None


class ArchivedMark(NamedTuple):
    """What the archive says of a job, besides what the job's own row said."""

    archived_at: datetime
    ended_as: str | None
    """The status that it was deleted from; None where that is not known any more."""
    restored_as: str | None
    """The job that it was restored as last."""
    restored_at: datetime | None


class ArchivedRow(NamedTuple):
    """An archived job for a list: how its payload starts, as in ``Details``."""

    job: Job
    mark: ArchivedMark
    payload_start: str


class ArchiveFound(NamedTuple):
    """Archived jobs with the keys by which they are ordered, and the key after which to go on; None at the end."""

    rows: list[tuple[Key, ArchivedRow]]
    resume: Key | None


class ArchivedJob(NamedTuple):
    """An archived job with what it carries, as it is stored. ``history`` is JSON."""

    job: Job
    mark: ArchivedMark
    payload: str
    result: str | None
    retry_policy: str | None
    followups: int | None
    history: str


class ArchivePort(Protocol):
    """The archive; a store has it as ``archive``."""

    def find(self, wanted: ArchiveQuery, after: Key | None, *, backward: bool, limit: int) -> ArchiveFound:
        """Up to ``limit`` archived jobs beyond a key, latest created first, or backward."""
        ...

    def get(self, job_id: str) -> ArchivedJob:
        """The archived job; ``UnknownJob`` where there is none."""
        ...

    def ids_between(self, head: str, tail: str, limit: int) -> list[str]:
        """The ids that begin and end so, of at most ``limit`` that begin so."""
        ...

    def restore(self, job_id: str, make: Callable[[ArchivedJob], NewJob], command: Command) -> str:
        """Write a new job that ``make`` makes of an archived one, with its audit entry; the id of the new job.

        ``InvalidTransition`` while the job that it was restored as before is live, ``KeyConflict`` where its business
        key is taken. ``make`` gives the same id each time it is asked.
        """
        ...
