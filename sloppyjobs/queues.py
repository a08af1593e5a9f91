"""What ``Jobs`` offers for queues: how they age, declared in code and written by workers when they start."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.domain.ageing import Ageing, checked
from sloppyjobs.storage.ports import Store


class DeclaredQueues:
    """The queues whose ageing the code of one ``Jobs`` declares."""

    def __init__(self, storage: Callable[[], Store], application: Callable[[], str | None]) -> None:
        self._storage = storage
        self._application = application
        self._declared: dict[str, Ageing] = {}

    def on(self, storage: Callable[[], Store]) -> DeclaredQueues:
        """The same queues in another database; what is declared later on the one is declared on the other."""
        other = DeclaredQueues(storage, self._application)
        other._declared = self._declared
        return other

    def declare(self, queue: str, ageing: Ageing) -> None:
        """Remember how a queue ages until ``sync`` writes it; ``DuplicateJob`` for one that is declared already."""
        if queue in self._declared:
            raise errors.DuplicateJob(f"the queue {queue!r} is declared already; declare each queue once")
        self._declared[queue] = ageing

    def sync(self) -> list[str]:
        """Write what is declared in code; workers do this when they start. The queues that code declares no more.

        Their priorities do not rise any more, and they are shown as such, until they are declared again or an operator
        decides. As with limits, only queues declared under the same ``Jobs(application=…)`` can vanish; and without an
        application's name only by a ``Jobs`` that declares at least one queue.
        """
        application = self._application()
        if not self._declared and application is None:
            return []
        store = self._storage().ageing
        for queue, ageing in self._declared.items():
            store.declare(queue, ageing, application)
        return store.mark_vanished(self._declared, application)


class QueueJobs:
    """The part of ``Jobs`` that concerns queues."""

    declared_queues: DeclaredQueues

    @options.known_only("declare_queue")
    def declare_queue(self, name: str, *, age: float | timedelta, most: int = 10) -> None:
        """Declare in code that jobs of a queue rise in priority while they wait; workers write it when they start.

        By one for each ``age`` seconds that they are due, by ``most`` at most; see ``admin.set_queue_ageing``. What an
        operator has changed since stays so until the code declares something else.
        """
        self.declared_queues.declare(options.queue("name", name), checked(age, most, named="age"))
