"""Batches, as operators see and command them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from sloppyjobs import errors
from sloppyjobs.admin.actions import ACTIONS, decision
from sloppyjobs.admin.filters import command_given, job_query, scope_of
from sloppyjobs.admin.presenter import Presenter
from sloppyjobs.domain import options
from sloppyjobs.domain.batches import ENDED, BatchRow, BatchStatus, Tally, decode_callbacks
from sloppyjobs.domain.states import Status
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.paging import Paging
from sloppyjobs.paging import page_size as checked_size
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.batches import BatchCounts, BatchFound, BatchQuery
from sloppyjobs.storage.ports.operators import Decide
from sloppyjobs.views import BatchCallback, BatchView, JobRow, Page

STEPS = 10
"""Steps of a command that are done by whoever gives it; workers do the others."""
SWEPT = 100
"""Running batches that a worker looks at from time to time."""
MOST_DEAD = 100


def advance_batches(storage: Store, definitions: Definitions) -> int:
    """Carry out commands on batches, and end those that should have ended; how many jobs were moved."""
    moved = sum(_advance(storage, definitions, batch_id) for batch_id in storage.batch_rows.due_actions())
    storage.batches.sweep(SWEPT)
    return moved


def _advance(storage: Store, definitions: Definitions, batch_id: str) -> int:
    cancel, retry = _decisions(definitions)
    return storage.batch_commands.advance(batch_id, cancel, retry, STEPS)


def _decisions(definitions: Definitions) -> tuple[Decide, Decide]:
    return decision(ACTIONS["cancel"], definitions), decision(ACTIONS["retry"], definitions)


class BatchAdmin:
    """The part of ``jobs.admin`` that concerns batches."""

    _storage: Store
    _definitions: Definitions

    def get_batch(self, id: str, *, scope: Iterable[str] | None = None) -> BatchView:
        """A batch with its exact numbers; ``UnknownBatch`` where there is none.

        ``scope`` limits the numbers to these queues, and hides a batch that has no job in them.
        """
        queues = scope_of(scope)
        found = self._storage.batch_rows.get(options.text("id", id), queues)
        callbacks = decode_callbacks(found.row.callbacks)
        ids = [one.id for one in callbacks.values()]
        statuses: dict[str, Status] = {}
        if ids:
            wanted = job_query({"ids": ids, "status": list(Status)}, queues)
            jobs = self._storage.lists.find(wanted, "-created_at", None, backward=False, limit=len(ids)).jobs
            statuses = {job.id: job.status for _, job in jobs}
        shown = tuple(
            BatchCallback(
                kind=kind,
                name=one.terms.name,
                queue=one.terms.queue,
                job_id=one.id,
                called=_is_called(found.row, kind),
                status=statuses.get(one.id),
            )
            for kind, one in callbacks.items()
            if queues is None or one.terms.queue in queues
        )
        return _view(found, self._storage.clock.now(), self._presenter(), shown)

    def list_batches(
        self,
        status: str | None = None,
        *,
        name: str | None = None,
        cursor: str | None = None,
        page_size: int = 50,
        scope: Iterable[str] | None = None,
    ) -> Page[BatchView]:
        """Batches, latest first; of one ``status`` (open, running, succeeded, failed, cancelled), of one ``name``."""
        accepted = [one.value for one in BatchStatus]
        wanted = BatchQuery(
            None if status is None else BatchStatus(options.one_of("status", status, accepted)),
            None if name is None else options.text("name", name),
            scope_of(scope),
        )
        paging = Paging("batches", (str,), wanted)
        position = paging.position(cursor)
        found, resume = self._storage.batch_rows.page(
            wanted, position.after, backward=position.backward, limit=checked_size(page_size)
        )
        now, presenter = self._storage.clock.now(), self._presenter()
        return paging.page([((one.row.id,), _view(one, now, presenter)) for one in found], position, resume)

    def dead_in_batch(self, id: str, *, limit: int = 20, scope: Iterable[str] | None = None) -> tuple[JobRow, ...]:
        """The first dead jobs of a batch, up to ``limit`` (1 to 100)."""
        most = options.whole("limit", limit, least=1, most=MOST_DEAD)
        ids = self._storage.batch_rows.dead_members(options.text("id", id), most)
        if not ids:
            return ()
        wanted = job_query({"ids": list(ids), "status": [Status.DEAD]}, scope)
        found = self._storage.lists.find(wanted, "created_at", None, backward=False, limit=most, details=True)
        presenter = self._presenter()
        return tuple(presenter.row(job, found.details.get(job.id)) for _, job in found.jobs)

    def seal_batch(
        self, id: str, *, actor: str | None = None, reason: str | None = None, scope: Iterable[str] | None = None
    ) -> BatchView:
        """Let a batch take no further jobs from outside, so that it can end; one that is sealed stays as it is."""
        self._refuse_partly_hidden(id, scope)
        self._storage.batch_commands.seal(options.text("id", id), command_given("seal_batch", actor, reason))
        return self.get_batch(id, scope=scope)

    def cancel_batch(
        self, id: str, *, actor: str | None = None, reason: str | None = None, scope: Iterable[str] | None = None
    ) -> BatchView:
        """Seal a batch and cancel its jobs that have not ended, running ones too; thousands of them by the workers.

        It ends as ``cancelled``, with its ``on_failure`` and ``on_complete``. ``InvalidTransition`` where it has ended.
        """
        self._refuse_partly_hidden(id, scope)
        command = command_given("cancel_batch", actor, reason)
        if self._storage.batch_commands.begin_cancel(options.text("id", id), command):
            _advance(self._storage, self._definitions, id)
        return self.get_batch(id, scope=scope)

    def retry_batch(
        self, id: str, *, actor: str | None = None, reason: str | None = None, scope: Iterable[str] | None = None
    ) -> BatchView:
        """Retry the dead jobs of a batch; thousands of them by the workers. The batch is running again until they end.

        ``InvalidTransition`` where none is dead, or the batch is being cancelled.
        """
        self._refuse_partly_hidden(id, scope)
        command = command_given("retry_batch", actor, reason)
        if self._storage.batch_commands.begin_retry(options.text("id", id), command):
            _advance(self._storage, self._definitions, id)
        return self.get_batch(id, scope=scope)

    def advance_batches(self) -> int:
        """What workers do for batches from time to time, done now; how many jobs were moved."""
        self._storage.ensure_schema()
        return advance_batches(self._storage, self._definitions)

    def _refuse_partly_hidden(self, id: str, scope: Iterable[str] | None) -> None:
        """A command is for the whole batch: not for somebody who sees a part of it."""
        visible = scope_of(scope)
        if visible is None:
            return
        self._storage.batch_rows.get(options.text("id", id), visible)
        if not set(self._storage.batch_rows.queues(id)) <= set(visible):
            raise errors.InvalidTransition(f"Batch {id} has jobs in queues that you cannot see")

    def _presenter(self) -> Presenter:
        raise NotImplementedError


def _view(
    found: BatchFound, now: datetime, presenter: Presenter, callbacks: tuple[BatchCallback, ...] = ()
) -> BatchView:
    row, tally = found.row, found.counts.tally
    rate = _rate(found.counts, row.finished_at or now)
    running = row.status is BatchStatus.RUNNING
    left = tally.outstanding / rate if rate and running and tally.outstanding > 0 else None
    return BatchView(
        id=row.id,
        name=row.name,
        status=row.status,
        success_rate=row.success_rate,
        total=tally.total,
        outstanding=tally.outstanding,
        succeeded=tally.succeeded,
        dead=tally.dead,
        cancelled=tally.cancelled,
        percent=tally.percent if tally.total else (100.0 if row.status in ENDED else 0.0),
        rate=rate,
        eta=None if left is None else now + timedelta(seconds=min(left, 1e9)),
        created_at=row.created_at,
        started_at=row.created_at,
        sealed_at=row.sealed_at,
        finished_at=row.finished_at,
        action=row.action,
        actor=presenter.text(None, row.actor),
        reason=presenter.text(None, row.reason),
        metadata=presenter.mapping(None, row.metadata),
        callbacks=callbacks,
        actions=_actions(row, tally),
        explanation=_explanation(row, tally),
        damage=row.damage,
    )


def _rate(counts: BatchCounts, until: datetime) -> float | None:
    """The first end is where counting begins, so it is not counted itself."""
    ended = counts.tally.ended
    if counts.first_at is None or counts.last_at is None or ended < 2:
        return None
    seconds = (max(until, counts.last_at) - counts.first_at).total_seconds()
    return (ended - 1) / seconds if seconds > 0 else None


def _actions(row: BatchRow, tally: Tally) -> tuple[str, ...]:
    if row.damage is not None:
        return ()
    if row.action is not None:
        return ("cancel",) if row.action == "retry" and row.status not in ENDED else ()
    can = ["seal"] if row.status is BatchStatus.OPEN else []
    can += ["cancel"] if row.status not in ENDED else []
    return (*can, "retry") if tally.dead > 0 else tuple(can)


def _is_called(row: BatchRow, kind: str) -> bool:
    """Whether a batch has called for this callback."""
    if kind == "success":
        return row.succeeded_at is not None
    return row.first_ended_at is not None and (kind == "complete" or row.first_status != BatchStatus.SUCCEEDED.value)


def _explanation(row: BatchRow, tally: Tally) -> str:
    """What frees it, in a sentence."""
    if row.damage is not None:
        return f"Its row is damaged: {row.damage}. Repair the row; its jobs go on."
    jobs = f"{tally.outstanding:,} more {'job has' if tally.outstanding == 1 else 'jobs have'} ended"
    if row.action == "cancel":
        return f"Being cancelled: {tally.outstanding:,} to go."
    if row.action == "retry":
        return "Its dead jobs are being retried."
    match row.status:
        case BatchStatus.OPEN:
            more = f" and {jobs}" if tally.outstanding > 0 else ""
            return f"Open: jobs can still be added. It ends when it is sealed{more}."
        case BatchStatus.RUNNING:
            return f"Sealed: no job can be added from outside. It ends when {jobs}."
        case BatchStatus.SUCCEEDED:
            return f"Ended: {tally.succeeded:,} of {tally.total:,} jobs succeeded."
        case BatchStatus.CANCELLED:
            return f"Cancelled: {tally.succeeded:,} of {tally.total:,} jobs had succeeded."
    needed = f"{100 * row.success_rate:g} % were needed"
    return f"Ended: {tally.succeeded:,} of {tally.total:,} jobs succeeded, {needed}."
