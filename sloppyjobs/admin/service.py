"""``jobs.admin``: every read bounded and redacted, every command fenced and audited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec

from sloppyjobs import errors
from sloppyjobs.admin.actions import actions_for
from sloppyjobs.admin.ageing import AgeingAdmin
from sloppyjobs.admin.alerts import AlertAdmin
from sloppyjobs.admin.archive import ArchiveAdmin
from sloppyjobs.admin.batches import BatchAdmin
from sloppyjobs.admin.bulk import Bulk
from sloppyjobs.admin.dead_groups import CauseAdmin
from sloppyjobs.admin.deploys import DeployAdmin
from sloppyjobs.admin.filters import audit_filter, job_query, order_of, scope_of
from sloppyjobs.admin.form_keys import FormAdmin
from sloppyjobs.admin.job_types import JobTypeAdmin
from sloppyjobs.admin.limits import LimitAdmin
from sloppyjobs.admin.locks import LockAdmin
from sloppyjobs.admin.login_throttle import ThrottleAdmin
from sloppyjobs.admin.one_job import OneJobAdmin
from sloppyjobs.admin.overview import overview, queue_attention, unhandled
from sloppyjobs.admin.patches import PatchAdmin
from sloppyjobs.admin.presenter import Presenter, status_of
from sloppyjobs.admin.queues import QueueAdmin
from sloppyjobs.admin.rekey import RekeyAdmin
from sloppyjobs.admin.run_samples import RunSampleAdmin
from sloppyjobs.admin.schedules import ScheduleAdmin
from sloppyjobs.admin.search import FindAdmin
from sloppyjobs.admin.summaries import queue_views, stats
from sloppyjobs.admin.upkeep import UpkeepAdmin
from sloppyjobs.admin.worker_commands import WorkerAdmin
from sloppyjobs.admin.workers import worker_views
from sloppyjobs.admin.workflows import WorkflowAdmin
from sloppyjobs.alerting.rules import AlertRules
from sloppyjobs.domain import options, payload
from sloppyjobs.domain.states import Status
from sloppyjobs.encryption import PLAIN, Sealing
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.ids import Ids, parts_of_short
from sloppyjobs.paging import Paging
from sloppyjobs.paging import page_size as checked_size
from sloppyjobs.schedules.registry import Schedules
from sloppyjobs.storage.ports import Store
from sloppyjobs.views import (
    Attention,
    AuditEntry,
    BulkResult,
    JobRow,
    Overview,
    Page,
    QueueView,
    Stats,
    Unhandled,
    WorkerView,
)

Moment = datetime | str
S = TypeVar("S")
T = TypeVar("T")

SHORT_ID_LIMIT = 20_000
"""How many jobs are searched for a shortened id: more than are created in the second that it names."""


class Admin(
    OneJobAdmin,
    PatchAdmin,
    WorkflowAdmin,
    BatchAdmin,
    CauseAdmin,
    UpkeepAdmin,
    ArchiveAdmin,
    AlertAdmin,
    LockAdmin,
    QueueAdmin,
    JobTypeAdmin,
    RunSampleAdmin,
    WorkerAdmin,
    DeployAdmin,
    LimitAdmin,
    AgeingAdmin,
    ScheduleAdmin,
    ThrottleAdmin,
    FormAdmin,
    FindAdmin,
    RekeyAdmin,
):
    """Reads and commands for operators. Get it as ``jobs.admin``.

    Every list is a ``Page`` with opaque cursors; ``page_size`` is from 1 to 500. ``InvalidOption`` names
    an option that cannot work, a cursor that is damaged or belongs to other filters included. Every command
    takes ``actor`` and ``reason`` and is written to the audit trail in its own transaction. A command whose
    effect is there already returns the job as it is, and writes neither an event nor an audit entry.
    """

    def __init__(
        self,
        storage: Store,
        definitions: Definitions,
        schedules: Schedules,
        ids: Ids,
        sealing: Sealing = PLAIN,
        payload_limit: int = payload.DEFAULT_LIMIT,
        alert_rules: AlertRules | None = None,
    ) -> None:
        self._storage = storage
        self._definitions = definitions
        self._schedules = schedules
        self._new_ids = ids
        self._sealing = sealing
        self._payload_limit = payload_limit
        self._alert_rules = AlertRules() if alert_rules is None else alert_rules

    def now(self) -> datetime:
        """What time it is by the clock of the jobs, the database's own: for instants that commands are given."""
        return self._storage.clock.now()

    def snapshot(self, work: Callable[[], T]) -> T:
        """Run ``work``, whose reads here share one connection, one transaction and one instant.

        It is retried as a whole after a transient fault, and must not command anything.
        """
        return self._storage.snapshot(work)

    # Jobs

    def list_jobs(
        self,
        status: str | Iterable[str] | None = None,
        *,
        queue: str | None = None,
        name: str | None = None,
        tag: str | None = None,
        worker: str | None = None,
        schedule: str | None = None,
        batch: str | None = None,
        workflow: str | None = None,
        correlation_id: str | None = None,
        idempotency_key: str | None = None,
        business_key: str | None = None,
        error_code: str | None = None,
        error_type: str | None = None,
        error_frame: str | None = None,
        created_from: Moment | None = None,
        created_to: Moment | None = None,
        run_from: Moment | None = None,
        run_to: Moment | None = None,
        order: str = "-created_at",
        cursor: str | None = None,
        page_size: int = 50,
        scope: Iterable[str] | None = None,
    ) -> Page[JobRow]:
        """Jobs, newest first. Without ``status`` every status but ``deleted``, which is shown when asked for.

        ``order`` is ``created_at`` or ``-created_at``; for scheduled and retrying jobs also ``run_at`` or
        ``-run_at``. ``worker`` is the holder of a running job. ``error_type`` and ``error_frame`` are
        those of a cause of death. Ranges include their start, not their end. ``scope`` limits the list to these
        queues, whatever else is asked.
        """
        given = {
            "status": status,
            "queue": queue,
            "name": name,
            "tag": tag,
            "worker": worker,
            "schedule": schedule,
            "batch": batch,
            "workflow": workflow,
            "correlation_id": correlation_id,
            "idempotency_key": idempotency_key,
            "business_key": business_key,
            "error_code": error_code,
            "created_from": created_from,
            "created_to": created_to,
            "run_from": run_from,
            "run_to": run_to,
        }
        cause = {"error_type": error_type, "error_frame": error_frame}
        given.update((key, value) for key, value in cause.items() if value is not None)
        wanted = job_query(given, scope)
        order = order_of(order, wanted)
        size = checked_size(page_size)
        paging = Paging("jobs", (str,) if wanted.ordered_by_id else (datetime, str), [wanted, order])
        position = paging.position(cursor)
        found = self._storage.lists.find(
            wanted, order, position.after, backward=position.backward, limit=size, details=True
        )
        presenter = self._presenter()
        rows = [(key, presenter.row(job, found.details.get(job.id))) for key, job in found.jobs]
        return paging.page(rows, position, found.resume)

    def whole_id(self, text: str) -> str:
        """The id that a shortened one (``job_01kg9f9c…x7q2``) stands for; any other text is returned as it is.

        ``UnknownJob`` where no job has such an id, or more than one.
        """
        if not isinstance(text, str):
            raise options.refuse("id", text, "must be text")
        parts = parts_of_short(text)
        if parts is None:
            return text
        found = self._storage.lists.ids_between(*parts, limit=SHORT_ID_LIMIT)
        if len(found) == 1:
            return found[0]
        raise errors.UnknownJob(
            f"no job has an id like {text}"
            if not found
            else f"{text} may be {' or '.join(found[:5])}: give the whole id"
        )

    @staticmethod
    def actions(job: JobRow | Status | str) -> tuple[str, ...]:
        """The commands that the state machine allows for a job or a status, by the names of the methods."""
        return actions_for(status_of(job), getattr(job, "waiting_for", None))

    # Commands on many jobs

    def bulk(
        self,
        action: str,
        filter: Mapping[str, Any],
        limit: int = 1000,
        dry_run: bool = False,
        *,
        actor: str | None = None,
        reason: str | None = None,
        scope: Iterable[str] | None = None,
        at_once: int | None = None,
        cursor: str | None = None,
    ) -> BulkResult:
        """Command every job that the filter finds, oldest first, up to ``limit`` (1 to 10,000).

        ``action`` is ``retry``, ``cancel``, ``delete``, ``run_now``, ``pause`` or ``resume``. The keys of the
        filter are the filters of ``list_jobs``, ``ids``, and ``error_type`` and ``error_frame`` (a cause of
        dead jobs, found fastest with the ``name``; None for jobs without); an empty filter and unknown keys are
        refused. Jobs that cannot take the action are skipped and counted by reason. ``dry_run`` writes nothing and
        shows what would happen, with a sample.

        The work is done in chunks, each a short transaction with its events and its audit entry. ``at_once`` bounds
        what this one call does: while the result has a ``next_cursor``, call again with the same arguments and
        ``cursor``. Its numbers then include the calls before. A job that was changed since the first call, by this
        command or by anybody else, is left alone: repeating a call, or continuing one that was interrupted, never
        does anything twice.
        """
        store = self._storage
        work = Bulk(store.lists, store.audit, store.redactions, self._definitions)
        return work.run(action, filter, limit, dry_run, actor, reason, scope, at_once, cursor)

    # Queues

    def list_queues(
        self, *, cursor: str | None = None, page_size: int = 50, scope: Iterable[str] | None = None
    ) -> Page[QueueView]:
        """Every queue ever seen, by name."""
        queues = scope_of(scope)
        read = partial(self._storage.history.queue_rows, queues)
        paging = Paging("queues", (str,), queues)
        page = self._page(paging, read, lambda one: (one.name,), _as_is, cursor, page_size)
        return msgspec.structs.replace(page, items=tuple(queue_views(self._storage, page.items, self._presenter())))

    # Everything else

    def overview(self, *, queues: Iterable[str] | None = None, minutes: int = 60) -> Overview:
        """The state of everything at a glance, in a fixed number of bounded queries.

        With ``queues``, only of these: their jobs, their schedules, and the workers that take from them. ``minutes``
        is the span in which a job counts as ``fresh``.
        """
        return overview(self._storage, self._definitions, self._presenter(), scope_of(queues), minutes)

    def stats(
        self,
        minutes: int = 60,
        queue: str | None = None,
        name: str | None = None,
        *,
        queues: Iterable[str] | None = None,
        ago: int = 0,
        compare: bool = False,
    ) -> Stats:
        """What happened in the last ``minutes``: by the minute up to a day, by the hour up to 30 days.

        ``queues`` limits them to these, whatever ``queue`` asks for. ``ago``: the same span, but so many minutes ago.
        ``compare`` fills ``previous``, the sum over the span before.
        """
        return stats(self._storage, minutes, queue, name, scope_of(queues), ago, compare=compare)

    def list_workers(
        self, *, cursor: str | None = None, page_size: int = 50, queues: Iterable[str] | None = None
    ) -> Page[WorkerView]:
        """Worker processes, those heard of last first; with ``queues``, only those that take from these."""
        paging = Paging("workers", (datetime, str))
        page = self._page(
            paging, self._storage.history.worker_rows, lambda one: (one.heartbeat_at, one.id), _as_is, cursor, page_size
        )
        scope = scope_of(queues)
        return msgspec.structs.replace(page, items=tuple(worker_views(self._storage, page.items, scope)))

    def queue_attention(self, queues: Iterable[str]) -> tuple[Attention, ...]:
        """What keeps jobs of these queues from running, the most urgent first: a part of what ``overview`` tells."""
        return queue_attention(self._storage, self._presenter(), scope_of(queues))

    def unhandled(self) -> tuple[Unhandled, ...]:
        """Queued jobs, by queue and name, that no live worker of their queue has a handler for.

        They stay queued until such a worker starts. Queues without any live worker are not told here, but by
        ``overview().idle_queues``. At most 50 queues are examined.
        """
        return unhandled(self._storage)

    def audit(
        self,
        target: str | None = None,
        actor: str | None = None,
        *,
        action: str | None = None,
        created_from: Moment | None = None,
        created_to: Moment | None = None,
        cursor: str | None = None,
        page_size: int = 50,
    ) -> Page[AuditEntry]:
        """Who commanded what, latest first; of one target (a job id, a queue's name), by one actor, of one action.

        The range includes its start, not its end.
        """
        wanted = audit_filter(target, actor, action, created_from, created_to)
        size = checked_size(page_size)
        paging = Paging("audit", (int,), wanted)
        position = paging.position(cursor)
        rows, resume = self._storage.audit.entries(wanted, position.after, backward=position.backward, limit=size)
        presenter = self._presenter()
        return paging.page([((row.id,), presenter.audit(row)) for row in rows], position, resume)

    def _presenter(self) -> Presenter:
        return Presenter(self._definitions, self._storage.redactions.by_name(), self._sealing)


def _as_is(row: Any) -> Any:
    return row
