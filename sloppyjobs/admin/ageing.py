"""Priority ageing, an option of each queue."""

from __future__ import annotations

from datetime import timedelta

from sloppyjobs.admin.filters import command_given
from sloppyjobs.admin.queues import check_known
from sloppyjobs.domain import options
from sloppyjobs.domain.ageing import Ageing, checked
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.storage.ports import Store


class AgeingAdmin:
    """The part of ``jobs.admin`` that lets queues age."""

    _storage: Store
    _definitions: Definitions

    def queue_ageing(self, name: str) -> Ageing | None:
        """How the jobs of a queue rise in priority while they wait; None where they do not."""
        return self._storage.ageing.get(options.queue("name", name))

    def set_queue_ageing(
        self,
        name: str,
        every: float | timedelta | None,
        most: int = 10,
        *,
        create: bool = False,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Ageing | None:
        """Raise the priority of the queue's jobs by one for each ``every`` seconds that they are due, up to ``most``.

        Jobs that wait for a permit move up in their line. None turns it off; jobs that were raised keep what they have.
        Workers do it about once a minute, a bounded number of jobs at a time. It holds until it is changed again, here
        or by code that declares something else than before. ``UnknownQueue`` as for ``pause_queue``, unless ``create``.
        """
        queue = options.queue("name", name)
        ageing = None if every is None else checked(every, most)
        if not options.truth("create", create):
            check_known(self._storage, self._definitions, queue, "change")
        self._storage.ageing.set(queue, ageing, command_given("set_queue_ageing", actor, reason))
        return ageing
