"""Limits as rows, who holds their permits, and who waits for one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.domain.limits import Limit, Partition
from sloppyjobs.storage.ports.operators import Command


class StoredLimit(NamedTuple):
    """A row of limits."""

    limit: Limit
    declared: bool
    """Whether it comes from code."""
    declared_as: Limit | None
    """What the code says, where that is known."""
    application: str | None
    vanished_at: datetime | None
    """Since when no code declares it any more; it limits nothing then."""
    created_at: datetime
    updated_at: datetime


class Held(NamedTuple):
    """A permit, and the job that holds it."""

    partition: str
    slot: int
    job_id: str
    taken_at: datetime
    name: str | None
    queue: str | None
    worker_id: str | None


class Usage(NamedTuple):
    """How much of a limit is in use. Counts that end with ``more`` stopped at their bound."""

    held: int
    waiting: int
    waiting_more: bool


class LineHead(NamedTuple):
    """The first job in the line of a partition."""

    partition: str
    job_id: str
    name: str | None
    queue: str | None
    since: datetime | None
    """When it came to the line."""
    waiting: int
    """How many wait in the line, and whether there are more."""
    waiting_more: bool
    held: int
    """Permits of the partition that jobs hold."""


class LineState(NamedTuple):
    """What a job that waits for a permit has before it."""

    partition: Partition
    limit: Limit | None
    """None where nothing limits the resource."""
    ahead: int
    ahead_more: bool
    holders: Sequence[Held]
    held: int
    next_token_at: datetime | None


class LimitPort(Protocol):
    """Limits; a store has it as ``limits``."""

    def register(self, limit: Limit, *, declared: bool = False, application: str | None = None) -> StoredLimit:
        """Write a limit, or change the one of that name.

        One that code declares leaves an operator's change alone until the code says something else than before.
        """
        ...

    def ensure(self, name: str) -> None:
        """Write a limit of that name that allows everything, unless there is one."""
        ...

    def change(self, limit: Limit, command: Command) -> StoredLimit:
        """Change a limit that is there, with an entry in the audit trail; ``UnknownLimit`` where there is none."""
        ...

    def delete(self, name: str, command: Command) -> StoredLimit:
        """Remove a limit; whoever waits for its permits goes on. ``UnknownLimit`` where there is none."""
        ...

    def mark_vanished(self, names: Collection[str], application: str | None) -> list[str]:
        """Let the application's declared limits end that are not among ``names``; which these were."""
        ...

    def get(self, name: str) -> StoredLimit:
        """The limit of that name, or ``UnknownLimit``."""
        ...

    def page(self, limit: int, after: str | None = None, *, backward: bool = False) -> list[StoredLimit]:
        """Up to ``limit`` limits in the order of their names or backward, beyond a name."""
        ...

    def usage(self, names: Sequence[str]) -> dict[str, Usage]:
        """How much of these limits is in use."""
        ...

    def holders(self, name: str, limit: int) -> list[Held]:
        """Who holds permits of a resource, those first that have them longest."""
        ...

    def lines(self, name: str, limit: int) -> list[tuple[str, int, bool]]:
        """Partitions in which jobs wait, how many, and whether the count stopped at its bound."""
        ...

    def heads(self, name: str, limit: int) -> list[LineHead]:
        """Who is first in the lines of a resource, up to so many lines."""
        ...

    def tokens(self, name: str, partitions: Sequence[str]) -> dict[str, int]:
        """How many jobs of these partitions may start now by the rate; empty where there is none."""
        ...

    def line_of(self, job_id: str, resource: str, partition: str) -> LineState:
        """What a job that needs a permit has before it."""
        ...

    def release_permit(self, job_id: str, command: Command) -> bool:
        """Take the permit away from a job, which may run on; False where it holds none."""
        ...

    def repair(self, limit: int) -> int:
        """Recompute permits and lines from the jobs, up to ``limit`` of each; how many rows were mended."""
        ...


def possible_name(name: object) -> str:
    """The name, if a limit could have it; ``UnknownLimit`` for what no store would take as text."""
    try:
        return options.text("name", name)
    except errors.InvalidOption:
        raise unknown_limit(name) from None


def unknown_limit(name: object) -> errors.UnknownLimit:
    """The error for a name that no limit has."""
    return errors.UnknownLimit(
        f"no limit is called {options.shown(name)}; jobs that name this resource are not limited"
    )
