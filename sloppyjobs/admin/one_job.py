"""One job as operators see it: what it is, what it did, why it is where it is; and the commands on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from sloppyjobs.admin.actions import ACTIONS, decision
from sloppyjobs.admin.explain import explain
from sloppyjobs.admin.filters import command_given, scope_of
from sloppyjobs.admin.job_facts import facts_about
from sloppyjobs.admin.presenter import Presenter
from sloppyjobs.admin.sentences import Write, plain
from sloppyjobs.domain import options
from sloppyjobs.domain.redaction.redactor import Preview
from sloppyjobs.domain.steps import StepKind
from sloppyjobs.encryption import Sealing, sealed_as
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.enqueue.signalling import sent_signal, signalled_job
from sloppyjobs.paging import Paging
from sloppyjobs.paging import page_size as checked_size
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.dependencies import EdgeRow
from sloppyjobs.storage.ports.steps import StepRow
from sloppyjobs.views import (
    AttemptView,
    DependenciesView,
    DependencyView,
    EventView,
    Explanation,
    JobView,
    LogView,
    Page,
    StepView,
)

S = TypeVar("S")
T = TypeVar("T")


class OneJobAdmin:
    """The part of ``jobs.admin`` that concerns a single job."""

    _storage: Store
    _definitions: Definitions
    _sealing: Sealing

    def get_job(self, id: str) -> JobView:
        """The job, with previews of payload, result and metadata; ``UnknownJob`` where there is none."""
        found = self._storage.history.job_row(id)
        return self._presenter().view(*found)

    def attempts(self, id: str, *, cursor: str | None = None, page_size: int = 50) -> Page[AttemptView]:
        """The executions of a job, oldest first; ``UnknownJob`` where there is none."""
        paging = Paging("attempts", (int,), id)
        name = self._storage.history.job_name(id)
        read = partial(self._storage.history.job_attempts, id)
        return self._page(
            paging, read, lambda one: (one.attempt_number,), partial(self._presenter().attempt, name), cursor, page_size
        )

    def events(self, id: str, *, cursor: str | None = None, page_size: int = 50) -> Page[EventView]:
        """The transitions of a job, oldest first; ``UnknownJob`` where there is none."""
        paging = Paging("events", (int,), id)
        name = self._storage.history.job_name(id)
        read = partial(self._storage.history.job_events, id)
        return self._page(
            paging, read, lambda one: (one.id,), partial(self._presenter().event, name), cursor, page_size
        )

    def logs(self, id: str, *, cursor: str | None = None, page_size: int = 50) -> Page[LogView]:
        """What the handler of a job logged, oldest first; ``UnknownJob`` where there is none."""
        paging = Paging("logs", (int,), id)
        name = self._storage.history.job_name(id)
        read = partial(self._storage.history.job_logs, id)
        show = partial(self._presenter().log, name)
        return self._page(paging, read, lambda one: (one.id,), show, cursor, page_size)

    def steps(self, id: str, *, cursor: str | None = None, page_size: int = 50) -> Page[StepView]:
        """The steps, sleeps and signals of a job, in the order in which its handler came to them.

        Signals that came before anybody asked for them are first. ``UnknownJob`` where there is no such job.
        """
        paging = Paging("steps", (int, str, str), id)
        name = self._storage.history.job_name(id)
        read = partial(self._storage.history.job_steps, id)
        show = partial(step_view, self._presenter(), (name, id))
        return self._page(paging, read, lambda row: (row.place, row.kind.value, row.name), show, cursor, page_size)

    def explain(self, id: str, *, write: Write = plain, scope: Iterable[str] | None = None) -> Explanation:
        """Why the job is not running, or how it ended: the answer first. ``UnknownJob`` for an unknown id.

        ``write`` makes text of each sentence; the default writes instants in UTC. ``scope`` keeps jobs of other queues
        from being named.
        """
        job = self._storage.history.known_job(id)
        shown = partial(self._presenter().text, job.name)
        facts = facts_about(self._storage, job, shown, None if scope is None else scope_of(scope))
        return explain(job, shown(job.error_message), facts, write)

    def dependencies(self, id: str, *, scope: Iterable[str] | None = None, limit: int = 100) -> DependenciesView:
        """What a job waits for, and what waits for it: up to ``limit`` of each; nothing for an id that no job has.

        ``scope`` hides other queues.
        """
        limit = options.whole("limit", limit, least=1, most=500)
        found = self._storage.history.neighbours(id, limit + 1)
        visible = None if scope is None else scope_of(scope)
        shown = [
            tuple(_dependency_view(edge) for edge in edges[:limit] if visible is None or edge.queue in visible)
            for edges in found
        ]
        return DependenciesView(parents=shown[0], children=shown[1], more=max(map(len, found)) > limit)

    # Commands, each with its entry in the audit trail

    def retry(self, id: str, *, actor: str | None = None, reason: str | None = None) -> JobView:
        """Queue a dead job with its full number of attempts again; the numbering continues."""
        return self._command("retry", id, actor, reason)

    def cancel(self, id: str, *, actor: str | None = None, reason: str | None = None) -> JobView:
        """Cancel a job that has not finished; a running handler is told, and its settlement will be stale."""
        return self._command("cancel", id, actor, reason)

    def delete(self, id: str, *, actor: str | None = None, reason: str | None = None) -> JobView:
        """Put a finished or queued job into ``deleted``; a purge removes it for good later."""
        return self._command("delete", id, actor, reason)

    def run_now(self, id: str, *, actor: str | None = None, reason: str | None = None) -> JobView:
        """Queue a scheduled, retrying or paused job at once; one that sleeps goes on, and its sleep is over."""
        return self._command("run_now", id, actor, reason)

    def pause(self, id: str, *, actor: str | None = None, reason: str | None = None) -> JobView:
        """Hold a scheduled, queued or retrying job back until it is resumed."""
        return self._command("pause", id, actor, reason)

    def resume(self, id: str, *, actor: str | None = None, reason: str | None = None) -> JobView:
        """Put a paused job back to where it was paused from."""
        return self._command("resume", id, actor, reason)

    def _command(self, action: str, id: str, actor: str | None, reason: str | None) -> JobView:
        decide = decision(ACTIONS[action], self._definitions)
        self._storage.audit.command_job(id, decide, command_given(action, actor, reason))
        return self.get_job(id)

    def signal(
        self,
        id: str | None = None,
        name: str = "",
        payload: Any = None,
        *,
        business_key: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> bool:
        """Send a signal to a job that has not finished; False where it has one of this name, and nothing is written.

        To the job with this id, or to the live one with a business key. Raises as ``jobs.signal``.
        """
        sent = sent_signal(name, payload)
        target = signalled_job(self._storage.signals, id, business_key)
        sealed = sent._replace(value=self._sealing.seal(target, sealed_as(StepKind.SIGNAL, sent.name), sent.value))
        return self._storage.signals.send(target, sealed, command_given("signal", actor, reason))

    def _page(
        self,
        paging: Paging,
        read: Callable[..., Sequence[S]],
        key: Callable[[S], tuple[Any, ...]],
        show: Callable[[S], T],
        cursor: str | None,
        page_size: int,
    ) -> Page[T]:
        size = checked_size(page_size)
        position = paging.position(cursor)
        rows = read(position.after, backward=position.backward, limit=size + 1)
        items = [(key(row), show(row)) for row in rows[:size]]
        return paging.page(items, position, items[-1][0] if len(rows) > size else None)

    def _presenter(self) -> Presenter:
        raise NotImplementedError


def step_view(presenter: Presenter, job: tuple[str, str], row: StepRow) -> StepView:
    """A step with its result redacted and bounded; ``job`` is the name and the id of its job."""
    duration = row.run_seconds
    if duration is None and row.finished_at is not None:
        duration = max(0.0, (row.finished_at - row.created_at).total_seconds())
    return StepView(
        name=row.name,
        kind=row.kind.value,
        state=row.state.value,
        attempt_number=row.attempt_number,
        created_at=row.created_at,
        finished_at=row.finished_at,
        wake_at=row.wake_at,
        duration=duration,
        size=row.size,
        result_preview=_preview(presenter, job, row),
    )


def _preview(presenter: Presenter, job: tuple[str, str], row: StepRow) -> Preview | None:
    return None if row.result is None else presenter.preview(*job, sealed_as(row.kind, row.name), row.result)


def _dependency_view(edge: EdgeRow) -> DependencyView:
    return DependencyView(
        job_id=edge.job_id,
        name=edge.name,
        queue=edge.queue,
        status=edge.status,
        needs=edge.needs,
        state=edge.state.name.lower(),
    )
