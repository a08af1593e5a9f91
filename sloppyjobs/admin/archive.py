"""The archive: search it, look at a job, restore one as a new job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from sloppyjobs import errors
from sloppyjobs.admin.actions import policy
from sloppyjobs.admin.filters import command_given, moment, scope_of
from sloppyjobs.admin.presenter import Presenter
from sloppyjobs.domain import options, payload
from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.model import Attempt, Event, NewJob, Terms
from sloppyjobs.domain.tags import encode_tags
from sloppyjobs.encryption import PAYLOAD, Sealing
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.ids import Ids, parts_of_short
from sloppyjobs.observe import traces
from sloppyjobs.paging import Paging
from sloppyjobs.paging import page_size as checked_size
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.archive import ArchivedJob, ArchivedMark, ArchiveQuery
from sloppyjobs.storage.ports.operators import JobState
from sloppyjobs.storage.ports.reads import Details, LastAttempt, LogLine
from sloppyjobs.views import JobView, Page
from sloppyjobs.views.archive import ArchivedRow, ArchivedView

Moment = datetime | str
T = TypeVar("T")

SHOWN = 100
"""Attempts, events and log lines of one archived job that are shown, the latest of each."""
SHORT_ID_LIMIT = 20_000
RESTORED_FROM = "restored_from"
"""The key in the metadata of a restored job that names the archived one."""


class ArchiveAdmin:
    """The part of ``jobs.admin`` that concerns jobs which a purge has moved to the archive."""

    _storage: Store
    _definitions: Definitions
    _new_ids: Ids
    _sealing: Sealing

    def get_job(self, id: str) -> JobView:
        """The job, as the admin shows it."""
        raise NotImplementedError

    def _presenter(self) -> Presenter:
        raise NotImplementedError

    def search_archive(
        self,
        id: str | None = None,
        *,
        key: str | None = None,
        business_key: str | None = None,
        idempotency_key: str | None = None,
        name: str | None = None,
        queue: str | None = None,
        created_from: Moment | None = None,
        created_to: Moment | None = None,
        cursor: str | None = None,
        page_size: int = 50,
        scope: Iterable[str] | None = None,
    ) -> Page[ArchivedRow]:
        """Archived jobs, latest created first; without a filter, all of them.

        ``id`` may be shortened (``job_01kg9f9c…x7q2``). ``key`` is a business key or an idempotency key. The range is
        of the instants at which the jobs were enqueued, and includes its start, not its end. ``scope`` limits the
        search to these queues.
        """
        start = None if created_from is None else moment("created_from", created_from)
        end = None if created_to is None else moment("created_to", created_to)
        if start is not None and end is not None and start > end:
            raise options.refuse("created_from", created_from, f"is after created_to={created_to!r}")
        wanted = ArchiveQuery(
            ids=None if id is None else self._archived_ids(id),
            key=options.key("key", key),
            business_key=options.key("business_key", business_key),
            idempotency_key=options.key("idempotency_key", idempotency_key),
            name=None if name is None else options.text("name", name),
            queue=None if queue is None else options.text("queue", queue),
            created_from=start,
            created_to=end,
            scope=scope_of(scope),
        )
        size = checked_size(page_size)
        paging = Paging("archive", (datetime, str), wanted)
        position = paging.position(cursor)
        found = self._storage.archive.find(wanted, position.after, backward=position.backward, limit=size)
        presenter = self._presenter()
        rows = [(key, _row(presenter.row(one.job, Details(one.payload_start)), one.mark)) for key, one in found.rows]
        return paging.page(rows, position, found.resume)

    def get_archived(self, id: str) -> ArchivedView:
        """An archived job with its attempts, events and logs, redacted; ``UnknownJob`` where there is none."""
        found = self._storage.archive.get(id)
        presenter, name = self._presenter(), found.job.name
        history, readable = _history(found.history)
        view = presenter.view(found.job, found.payload, found.result, None, _last(history.attempts))
        lines = [LogLine(number, found.job.id, *_line(one)) for number, one in enumerate(history.logs, start=1)]
        return ArchivedView(
            **msgspec.structs.asdict(view),
            **found.mark._asdict(),
            attempts=tuple(presenter.attempt(name, one) for one in history.attempts[-SHOWN:]),
            events=tuple(presenter.event(name, one) for one in history.events[-SHOWN:]),
            logs=tuple(presenter.log(name, one) for one in lines[-SHOWN:]),
            more=max(map(len, (history.attempts, history.events, history.logs))) > SHOWN,
            readable=readable,
        )

    def restore(self, id: str, *, actor: str | None = None, reason: str | None = None) -> JobView:
        """Enqueue an archived job as a new one, due at once, with a full number of attempts.

        It has the archived job's name, payload, queue, priority, timeout, retry policy, business key, correlation id,
        principal, tags, limit and metadata; ``metadata["restored_from"]`` names the archived job, which stays in the
        archive. It does not have its idempotency key, schedule, expiry, dependencies, workflow or batch: these belonged
        to the first one. No definition is needed here: a name that no worker knows is queued and waits for one.
        Raises ``UnknownJob`` where there is no such archived job, ``KeyConflict`` where its business key is taken,
        ``DecryptionFailed`` where its payload cannot be read, ``InvalidTransition`` while the job that it was restored
        as before has not ended.
        """
        new_id = self._new_ids.new("job")

        def make(archived: ArchivedJob) -> NewJob:
            if archived.job.damage is not None:
                raise errors.InvalidPayload(f"job {id} cannot be restored: {archived.job.damage}")
            text = self._sealing.open(archived.job.id, PAYLOAD, archived.payload)
            return NewJob(new_id, self._sealing.seal(new_id, PAYLOAD, text), self._restored_terms(archived))

        return self.get_job(self._storage.archive.restore(id, make, command_given("restore", actor, reason)))

    def _restored_terms(self, archived: ArchivedJob) -> Terms:
        job = archived.job
        state = JobState(job.id, job.name, job.status, job.attempt_count, retry_policy=archived.retry_policy)
        pending = (archived.followups or 0) & Followup.PENDING_KEY
        return Terms(
            name=job.name,
            queue=job.queue,
            priority=job.priority if job.base_priority is None else job.base_priority,
            max_attempts=policy(state, self._definitions).max_attempts,
            retry_policy=archived.retry_policy,
            timeout=job.timeout,
            correlation_id=job.correlation_id,
            principal=job.principal,
            metadata=payload.encode({**traces.without_trace(job).metadata, RESTORED_FROM: job.id}, what="metadata"),
            business_key=job.business_key,
            on_conflict="reject",
            unique="pending" if pending else "live",
            tags=encode_tags(job.tags),
            resource=job.resource,
            partition_key=job.partition_key,
            payload_version=job.payload_version,
        )

    def _archived_ids(self, id: str) -> tuple[str, ...]:
        text = options.text("id", id)
        parts = parts_of_short(text)
        if parts is None:
            return (text,)
        return tuple(self._storage.archive.ids_between(*parts, limit=SHORT_ID_LIMIT)[:500])


class _Line(msgspec.Struct):
    attempt_number: int
    level: str
    message: str
    fields: str | None
    created_at: datetime


class _History(msgspec.Struct):
    """What a purge keeps of a job's history; see ``upkeep/retention.py``."""

    attempts: tuple[Attempt, ...] = ()
    events: tuple[Event, ...] = ()
    logs: tuple[_Line, ...] = ()


def _history(text: str) -> tuple[_History, bool]:
    """The history, and whether it could be read: somebody may have changed the row by hand."""
    try:
        return msgspec.json.decode(text, type=_History), True
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _History(), False


def _line(one: _Line) -> tuple[Any, ...]:
    return one.attempt_number, one.level, one.message, one.created_at, one.fields


def _last(attempts: Sequence[Attempt]) -> LastAttempt:
    return LastAttempt(attempts[-1].started_at, attempts[-1].duration) if attempts else LastAttempt()


def _row(row: Any, mark: ArchivedMark) -> ArchivedRow:
    return ArchivedRow(**msgspec.structs.asdict(row), **mark._asdict())
