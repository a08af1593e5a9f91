"""Queues one by one: what lies in them, and their pauses."""

from __future__ import annotations

from datetime import datetime

from sloppyjobs import errors
from sloppyjobs.admin.filters import command_given, moment
from sloppyjobs.admin.presenter import Presenter
from sloppyjobs.admin.summaries import queue_views
from sloppyjobs.admin.workers import live_workers, workers_of
from sloppyjobs.domain import options
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.storage.ports import Store
from sloppyjobs.views import QueueView, WorkerView

DEFAULT_QUEUE = "default"
"""Known before anybody has used it."""

PAST = "is not in the future"
"""What is wrong with the end of a pause that is over already."""

Moment = datetime | str


class QueueAdmin:
    """The part of ``jobs.admin`` that concerns one queue."""

    _storage: Store
    _definitions: Definitions

    def _presenter(self) -> Presenter:
        raise NotImplementedError

    def get_queue(self, name: str) -> QueueView:
        """One queue; ``UnknownQueue`` where nobody has used or paused it yet."""
        rows = self._storage.history.queue_rows([options.text("name", name)], None, backward=False, limit=1)
        if not rows:
            raise errors.UnknownQueue(f"no queue is called {name!r}; nobody has used or paused it yet")
        return queue_views(self._storage, rows, self._presenter())[0]

    def queue_workers(self, name: str) -> tuple[WorkerView, ...]:
        """Live workers that take jobs from a queue, at most 20, each with what it holds and runs of this queue."""
        return tuple(workers_of(self._storage, options.text("name", name)))

    def pause_queue(
        self,
        name: str,
        until: Moment | None = None,
        *,
        create: bool = False,
        actor: str | None = None,
        reason: str | None = None,
    ) -> QueueView:
        """Let no job of the queue start, until an instant or a resume.

        A queue is known when it was used or paused before, or when a definition or a live worker names it. Any other
        name raises ``UnknownQueue``, because it is most likely mistyped; ``create`` pauses it all the same, before its
        first job comes.
        """
        queue = options.queue("name", name)
        if not options.truth("create", create):
            check_known(self._storage, self._definitions, queue, "pause")
        end = None if until is None else moment("until", until)
        if end is not None and end <= self._storage.clock.now():
            raise options.refuse("until", until, PAST)
        command = command_given("pause_queue", actor, reason)
        self._storage.audit.set_queue_paused(queue, True, end, command)
        return self.get_queue(queue)

    def resume_queue(self, name: str, *, actor: str | None = None, reason: str | None = None) -> QueueView:
        """End the pause of a queue."""
        queue = self.get_queue(name).name
        command = command_given("resume_queue", actor, reason)
        self._storage.audit.set_queue_paused(queue, False, None, command)
        return self.get_queue(queue)


def check_known(storage: Store, definitions: Definitions, queue: str, verb: str) -> None:
    """Refuse the name of a queue that nobody knows: it is most likely mistyped."""
    if queue == DEFAULT_QUEUE or any(definition.queue == queue for definition in definitions):
        return
    if storage.history.queue_rows([queue], None, backward=False, limit=1):
        return
    workers = storage.history.recent_workers()
    if queue in {name for worker in live_workers(workers, storage.clock.now()) for name in worker.queues}:
        return
    known = [row.name for row in storage.history.queue_rows(None, None, backward=False, limit=21)]
    shown = ", ".join(map(repr, known[:20])) + (" and more" if len(known) > 20 else "")
    raise errors.UnknownQueue(
        f"no queue is called {queue!r}; known are {shown or 'none yet'}. To {verb} it before its first job comes, "
        "use create=True, or --create on the command line"
    )
