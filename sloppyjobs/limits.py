"""What ``Jobs`` offers for limits: written now, or declared in code and written by workers when they start."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.domain.limits import Limit, checked
from sloppyjobs.queues import DeclaredQueues, QueueJobs
from sloppyjobs.storage.ports import Store

if TYPE_CHECKING:
    from sloppyjobs.schedules.registry import Schedules

Duration = float | timedelta


class DeclaredLimits:
    """The limits that the code of one ``Jobs`` declares."""

    def __init__(self, storage: Callable[[], Store], application: Callable[[], str | None]) -> None:
        self._storage = storage
        self._application = application
        self._declared: dict[str, Limit] = {}

    def on(self, storage: Callable[[], Store]) -> DeclaredLimits:
        """The same limits in another database; what is declared later on the one is declared on the other."""
        other = DeclaredLimits(storage, self._application)
        other._declared = self._declared
        return other

    def declare(self, limit: Limit) -> None:
        """Remember a limit until ``sync`` writes it; ``DuplicateJob`` for a name that is declared already."""
        if limit.name in self._declared:
            raise errors.DuplicateJob(f"the limit {limit.name!r} is declared already; each needs a name of its own")
        self._declared[limit.name] = limit

    def sync(self) -> list[str]:
        """Write what is declared in code; workers do this when they start. The names of those that have vanished.

        A limit that was declared and is so no more has *vanished*: it limits nothing, and is shown as such until it is
        declared again or deleted. Only limits declared under the same ``Jobs(application=…)`` can vanish; and without
        an application's name only by a ``Jobs`` that declares at least one limit.
        """
        application = self._application()
        if not self._declared and application is None:
            return []
        limits = self._storage().limits
        for limit in self._declared.values():
            limits.register(limit, declared=True, application=application)
        return limits.mark_vanished(self._declared, application)


def declared(
    storage: Callable[[], Store], application: Callable[[], str | None]
) -> tuple[DeclaredLimits, DeclaredQueues]:
    """What code declares of limits and of queues: nothing yet."""
    return DeclaredLimits(storage, application), DeclaredQueues(storage, application)


class LimitedJobs(QueueJobs):
    """The part of ``Jobs`` that concerns limits and queues."""

    schedules: Schedules
    declared_limits: DeclaredLimits

    @property
    def storage(self) -> Store:
        """Where the jobs are kept."""
        raise NotImplementedError

    @options.known_only("limit")
    def limit(
        self, name: str, *, concurrency: int | None = None, rate: int | None = None, per: Duration | None = None
    ) -> Limit:
        """Write a limit now: at most ``concurrency`` jobs with this ``resource`` run at once, and ``rate`` start in
        ``per`` seconds, in each partition. None means no limit.

        A name that is there already is changed, and that is in force at once: a higher limit lets jobs go on that wait,
        a lower one ends none. Raises ``InvalidOption`` before anything is written. At the top of a module, where no
        connection is wanted yet, use ``declare_limit``.
        """
        return self.storage.limits.register(checked(name, concurrency, rate, per)).limit

    @options.known_only("declare_limit")
    def declare_limit(
        self, name: str, *, concurrency: int | None = None, rate: int | None = None, per: Duration | None = None
    ) -> None:
        """Declare a limit in code, checked as by ``limit``; workers write it when they start.

        What an operator has changed since stays so until the code declares something else.
        """
        self.declared_limits.declare(checked(name, concurrency, rate, per))
