"""Priority ageing, an option of each queue."""

from __future__ import annotations

from datetime import timedelta

from sloppyjobs.admin.filters import command_given
from sloppyjobs.domain import options
from sloppyjobs.domain.ageing import Ageing
from sloppyjobs.storage.ports import Store

MOST = 1_000_000


class AgeingAdmin:
    """The part of ``jobs.admin`` that lets queues age."""

    _storage: Store

    def queue_ageing(self, name: str) -> Ageing | None:
        """How the jobs of a queue rise in priority while they wait; None where they do not."""
        return self._storage.ageing.get(options.queue("name", name))

    def set_queue_ageing(
        self,
        name: str,
        every: float | timedelta | None,
        most: int = 10,
        *,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Ageing | None:
        """Raise the priority of the queue's jobs by one for each ``every`` seconds that they are due, up to ``most``.

        None turns it off; jobs that were raised keep what they have. Workers do it about once a minute, a bounded
        number of jobs at a time.
        """
        queue = options.queue("name", name)
        ageing = None
        if every is not None:
            ageing = Ageing(options.seconds("every", every, least=1), options.whole("most", most, least=1, most=MOST))
        self._storage.ageing.set(queue, ageing, command_given("set_queue_ageing", actor, reason))
        return ageing
