"""What is left out for an actor without ``job.view``: ids, payloads and errors of jobs, wherever they would show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from sloppyjobs.domain.redaction.redactor import Preview
from sloppyjobs.schedules.occurrences import Recurring
from sloppyjobs.views import Attention, AuditEntry, BulkResult, JobTypeView, JobView, Overview, Page, WorkerView
from webui.ui import visit

HIDDEN = "[hidden]"
"""In the place of a job's id."""
_NO_PAYLOAD = Preview(None, "", 0, truncated=False, available=False)
_OF_JOBS = {"filter", "job", "new"}
"""Details of audit entries that tell of single jobs."""


def sees_jobs() -> bool:
    """Whether the actor may see jobs at all."""
    return visit().may("job.view")


def attention(found: Sequence[Attention]) -> tuple[Attention, ...]:
    """Who paused a queue, and why, is for those who see queues."""
    if visit().may("queue.view"):
        return tuple(found)
    return tuple(msgspec.structs.replace(one, by=None, reason=None) for one in found)


def overview(whole: Overview) -> Overview:
    """Without the causes of dead jobs, which quote an error and an example; the counts stay."""
    whole = msgspec.structs.replace(whole, attention=attention(whole.attention))
    return whole if sees_jobs() else msgspec.structs.replace(whole, dead_groups=())


def job_type(one: JobTypeView) -> JobTypeView:
    """Without the causes of death, schedules, workers and deploys that the actor may not see; the counts stay."""
    hidden = {"causes": "dead.view", "schedules": "recurring.view", "workers": "worker.view", "deploys": "deploy.view"}
    left_out: dict[str, Any] = {field: () for field, action in hidden.items() if not visit().may(action)}
    if "deploys" in left_out:
        left_out["since_deploy"] = None
    return msgspec.structs.replace(one, **left_out)


def bulk(result: BulkResult) -> BulkResult:
    """Without the sample; the tally stays."""
    return result if sees_jobs() else msgspec.structs.replace(result, sample=(), sample_ids=())


def commanded(job: JobView) -> JobView | dict[str, str]:
    """What a command has made of a job: no more than that it was done."""
    return job if sees_jobs() else {"status": job.status.value}


def schedule(one: Recurring) -> Recurring:
    """Without the payload that its jobs carry."""
    return one if sees_jobs() else msgspec.structs.replace(one, payload_preview=_NO_PAYLOAD)


def schedules(page: Page[Recurring]) -> Page[Recurring]:
    """The same for a list."""
    return msgspec.structs.replace(page, items=tuple(map(schedule, page)))


def workers(page: Page[WorkerView]) -> Page[WorkerView]:
    """Without the jobs that they run; how many these are stays."""
    return page if sees_jobs() else msgspec.structs.replace(page, items=tuple(map(_without_jobs, page)))


def worker(one: WorkerView) -> WorkerView:
    """The same for one of them."""
    return one if sees_jobs() else _without_jobs(one)


def _without_jobs(one: WorkerView) -> WorkerView:
    return msgspec.structs.replace(one, jobs=())


def audit(page: Page[AuditEntry]) -> Page[AuditEntry]:
    """Without the ids of jobs, and the filters that found them; who did what, when and why stays."""
    return page if sees_jobs() else msgspec.structs.replace(page, items=tuple(map(_entry, page)))


def _entry(one: AuditEntry) -> AuditEntry:
    target = HIDDEN if one.target_type == "job" else one.target
    detail = {name: value for name, value in one.detail.items() if name not in _OF_JOBS}
    return msgspec.structs.replace(one, target=target, detail=detail)
