"""From stored values to what may be shown: everything that the admin returns is made here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sloppyjobs.admin.actions import actions_for
from sloppyjobs.domain.dependencies import Result
from sloppyjobs.domain.model import Attempt, Event, Job
from sloppyjobs.domain.payload_summary import summary
from sloppyjobs.domain.redaction.redactor import Preview, Redactor, encrypted_preview, encrypted_text
from sloppyjobs.domain.sealed import MARK, is_sealed, is_whole, key_of
from sloppyjobs.domain.states import Status
from sloppyjobs.encryption import PAYLOAD, PLAIN, RESULT, Sealing, missing
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.errors import DecryptionFailed
from sloppyjobs.observe import traces
from sloppyjobs.storage.ports.operators import AuditRow
from sloppyjobs.storage.ports.reads import Details, LastAttempt, LogLine
from sloppyjobs.views import AttemptView, AuditEntry, EventView, JobRow, JobView, LogView

FIELDS_LIMIT = 4_096
"""Characters of a log line's fields, or of an audit entry's detail, that are shown."""
COMPARED_LIMIT = 200
"""Characters that are shown of a value with which a result is compared."""


_CUT = Preview(value=None, text="encrypted", redacted=0, truncated=True, available=False)
"""Of a payload that is too long for a list."""


class Presenter:
    """Redaction by the common rules, and by the secret keys of the job: those of its definition, and those stored."""

    def __init__(
        self, definitions: Definitions, secret: Mapping[str, tuple[str, ...]], sealing: Sealing = PLAIN
    ) -> None:
        self._definitions = definitions
        self._sealing = sealing
        self._secret = secret
        self._redactors: dict[str | None, Redactor] = {}

    def redactor(self, name: str | None) -> Redactor:
        """What hides the secrets of the job of that name."""
        found = self._redactors.get(name)
        if found is None:
            found = self._redactors[name] = Redactor(() if name is None else self._keys(name))
        return found

    def _keys(self, name: str) -> tuple[str, ...]:
        definition = self._definitions.get(name)
        return (*self._secret.get(name, ()), *(() if definition is None else definition.redact))

    def text(self, name: str | None, value: str | None) -> str | None:
        """A text without its secrets."""
        return None if value is None else self.redactor(name).text(value)

    def mapping(self, name: str | None, stored: str | None) -> Mapping[str, Any]:
        """A stored JSON object without its secrets, truncated; empty where there is none."""
        value = None if stored is None else self.redactor(name).json(stored, limit=FIELDS_LIMIT).value
        return value if isinstance(value, dict) else {}

    def comparison(self, name: str, when: Result) -> str:
        """What is asked of the result of a job of that name, in words: its value is hidden as it is in the result."""
        redactor, keys = self.redactor(name), when.keys()
        nested: Any = when.value
        for key in reversed(keys):
            nested = {key: nested}
        shown = redactor.bounded(nested, limit=COMPARED_LIMIT)
        for _ in keys:
            # Less is left of it where it is hidden as a whole.
            shown = next(iter(shown.values())) if isinstance(shown, dict) else shown
        value = f"{shown:g}" if isinstance(shown, float) else str(shown)
        if len(value) > COMPARED_LIMIT:
            value = value[:COMPARED_LIMIT] + "…"
        return f"{redactor.text('.'.join(keys)) or 'result'} {when.compare} {value}"

    def row(self, job: Job, details: Details | None = None) -> JobRow:
        """A job for a list."""
        if details is None:
            return JobRow(**self._fields(job))
        return JobRow(
            **self._fields(job),
            payload_preview=self._summary(job, details.payload_start),
            **details.last._asdict(),
        )

    def view(
        self,
        job: Job,
        payload: str,
        result: str | None,
        schedule_name: str | None,
        last: LastAttempt,
    ) -> JobView:
        """A job with previews of what it carries."""
        redactor = self.redactor(job.name)
        plain = traces.without_trace(job) if traces.TRACE in job.metadata else job
        metadata = redactor.bounded(plain.metadata)
        progress = redactor.bounded(job.progress_fields)
        return JobView(
            **self._fields(job),
            **last._asdict(),
            payload_preview=self._json(job, PAYLOAD, payload),
            result_preview=None if result is None else self._json(job, RESULT, result),
            metadata=metadata if isinstance(metadata, dict) else {},
            progress_fields=progress if isinstance(progress, dict) else {},
            schedule_name=schedule_name,
        )

    def _summary(self, job: Job, start: str) -> Preview:
        """Of a longer payload that is encrypted the start cannot be read."""
        if is_sealed(start) and not is_whole(start):
            return _CUT if self._sealing.knows(key_of(start)) else encrypted_preview(missing(PAYLOAD, key_of(start)))
        try:
            text = self._sealing.open(job.id, PAYLOAD, start)
        except DecryptionFailed as error:
            return encrypted_preview(error)
        return summary(self.redactor(job.name), text)

    def _json(self, job: Job, what: str, stored: str) -> Preview:
        return self.preview(job.name, job.id, what, stored)

    def preview(self, name: str, job_id: str, what: str, stored: str) -> Preview:
        """What may be shown of stored JSON of a job: a result, the value of a signal …"""
        try:
            sealed = isinstance(stored, str) and stored.startswith(MARK)
            text = self._sealing.open(job_id, what, stored) if sealed else stored
            return self.redactor(name).json(text)
        except DecryptionFailed as error:
            return encrypted_preview(error)

    def _fields(self, job: Job) -> dict[str, Any]:
        fields = {name: getattr(job, name) for name in _SHOWN_AS_IS}
        fields |= {name: self.text(job.name, getattr(job, name)) for name in _SHOWN_REDACTED}
        tags = tuple(self.redactor(job.name).text(tag) for tag in job.tags)
        return {**fields, "tags": tags, "actions": actions_for(job.status, job.waiting_for)}

    def attempt(self, name: str, attempt: Attempt) -> AttemptView:
        """An attempt with its error redacted."""
        return AttemptView(
            id=f"attempt_{attempt.job_id.removeprefix('job_')}_{attempt.attempt_number}",
            job_id=attempt.job_id,
            attempt_number=attempt.attempt_number,
            worker_id=attempt.worker_id,
            status=attempt.status,
            started_at=attempt.started_at,
            finished_at=attempt.finished_at,
            duration=attempt.duration,
            error_code=attempt.error_code,
            error_type=attempt.error_type,
            error_message=self.text(name, attempt.error_message),
            error_frame=attempt.error_frame,
            traceback=self.text(name, attempt.traceback),
        )

    def event(self, name: str, event: Event) -> EventView:
        """An event with its message redacted."""
        return EventView(
            id=f"event_{event.id}",
            job_id=event.job_id,
            event_type=event.event_type,
            from_status=event.from_status,
            to_status=event.to_status,
            created_at=event.created_at,
            attempt_number=event.attempt_number,
            worker_id=event.worker_id,
            actor=self.text(name, event.actor),
            message=self.text(name, event.message),
        )

    def log(self, name: str, row: LogLine) -> LogView:
        """A log line, redacted."""
        try:
            message, fields = self._sealing.open_line(row.job_id, row.message, row.fields)
        except DecryptionFailed as error:
            message, fields = encrypted_text(error), None
        return LogView(
            id=f"log_{row.id}",
            job_id=row.job_id,
            attempt_number=row.attempt_number,
            level=row.level,
            message=self.redactor(name).text(message),
            created_at=row.created_at,
            fields=self.mapping(name, fields),
        )

    def audit(self, row: AuditRow) -> AuditEntry:
        """An entry of the audit trail, redacted."""
        return AuditEntry(
            id=f"audit_{row.id}",
            created_at=row.created_at,
            action=row.action,
            target_type=row.target_type,
            target=row.target,
            actor=self.text(None, row.actor),
            reason=self.text(None, row.reason),
            detail=self.mapping(None, row.detail),
        )


_SHOWN_AS_IS = (
    "id",
    "name",
    "queue",
    "status",
    "priority",
    "run_at",
    "created_at",
    "updated_at",
    "attempt_count",
    "max_attempts",
    "timeout",
    "locked_by",
    "locked_until",
    "schedule_id",
    "occurrence_at",
    "progress",
    "error_code",
    "error_type",
    "error_frame",
    "paused_from",
    "finished_at",
    "superseded_by",
    "supersedes",
    "expires_at",
    "waiting_for",
    "workflow_id",
    "batch_id",
    "payload_version",
    "base_priority",
)
_SHOWN_REDACTED = (
    "idempotency_key",
    "business_key",
    "correlation_id",
    "principal",
    "resource",
    "partition_key",
    "progress_message",
    "error_message",
    "damage",
)


def status_of(job: JobRow | Job | Status | str) -> Status:
    """The status of a job, or the one of that name."""
    return job.status if isinstance(job, JobRow | Job) else Status(job)
