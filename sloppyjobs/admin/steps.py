"""Steps, sleeps and signals of jobs, as operators see them; and signals that operators send."""

from __future__ import annotations

from functools import partial
from typing import Any

from sloppyjobs.admin.filters import command_given
from sloppyjobs.admin.presenter import Presenter
from sloppyjobs.domain.redaction.redactor import Preview
from sloppyjobs.domain.steps import StepKind
from sloppyjobs.encryption import Sealing, sealed_as
from sloppyjobs.enqueue.signalling import sent_signal, signalled_job
from sloppyjobs.paging import Paging
from sloppyjobs.paging import page_size as checked_size
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.steps import StepRow
from sloppyjobs.views import Page, StepView


class StepAdmin:
    """The part of ``jobs.admin`` that concerns durable steps and signals."""

    _storage: Store
    _sealing: Sealing

    def steps(self, id: str, *, cursor: str | None = None, page_size: int = 50) -> Page[StepView]:
        """The steps, sleeps and signals of a job, in the order in which its handler came to them.

        Signals that came before anybody asked for them are first. ``UnknownJob`` where there is no such job.
        """
        paging = Paging("steps", (int, str, str), id)
        size, position = checked_size(page_size), paging.position(cursor)
        name = self._storage.history.job_name(id)
        found = self._storage.history.job_steps(id, position.after, backward=position.backward, limit=size + 1)
        show = partial(step_view, self._presenter(), (name, id))
        items = [((row.place, row.kind.value, row.name), show(row)) for row in found[:size]]
        return paging.page(items, position, items[-1][0] if len(found) > size else None)

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
