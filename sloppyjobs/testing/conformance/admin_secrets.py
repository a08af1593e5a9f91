"""Nothing that leaves through the admin service carries a secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance import admin_scenes as scene

CANARY = "canary-7f3a9b"


def _leaky(jobs: Jobs, clock: FakeClock) -> str:
    """A dead job with the canary in everything that it carries."""
    jobs.declare("leaky", redact=("colour", "card.number"))
    job = jobs.enqueue(
        "leaky",
        {
            "password": CANARY,
            "colour": CANARY,
            "card": {"number": CANARY},
            "list": [{"apiKey": CANARY}],
            "env": [{"name": "DB_PASSWORD", "value": CANARY}],
            "headers": [["Authorization", CANARY]],
            "argv": ["tool", "--password", CANARY],
            "fine": "shown",
        },
        metadata={"token": CANARY, "team": "growth"},
        correlation_id=f"password={CANARY}",
        idempotency_key=f"token={CANARY}",
        principal=f"secret={CANARY}",
        max_attempts=1,
    )
    [claim] = jobs.claim("worker_leaky")
    jobs.storage.set_progress(
        "worker_leaky",
        (job.id, 1),
        50,
        f"tool --token {CANARY}",
        f'{{"token":"{CANARY}","colour":"{CANARY}","text":"password={CANARY}","rows":3}}',
    )
    jobs.storage.logs.write(
        [
            {
                "job_id": job.id,
                "attempt_number": 1,
                "level": "info",
                "message": f"connecting with password={CANARY}",
                "fields": f'{{"colour":"{CANARY}","step":1}}',
                "created_at": clock.now(),
            }
        ]
    )
    try:
        raise ValueError(
            f"cannot log in with password={CANARY} and colour={CANARY}; Key (api_key)=({CANARY}) already exists"
        )
    except ValueError as error:
        assert jobs.fail(claim, error)
    return job.id


def _reads(jobs: Jobs, id: str) -> dict[str, Callable[[], Any]]:
    admin = jobs.admin
    return {
        "list_jobs": admin.list_jobs,
        "get_job": lambda: admin.get_job(id),
        "attempts": lambda: admin.attempts(id),
        "events": lambda: admin.events(id),
        "logs": lambda: admin.logs(id),
        "explain": lambda: admin.explain(id),
        "dead_groups": admin.dead_groups,
        "overview": admin.overview,
        "bulk dry": lambda: admin.bulk("retry", {"name": "leaky"}, dry_run=True),
        "list_queues": admin.list_queues,
        "list_workers": admin.list_workers,
        "list_locks": admin.list_locks,
        "stats": admin.stats,
        "retry": lambda: admin.retry(id, actor="ada", reason=f"password={CANARY}"),
        "pause": lambda: admin.pause(id, actor="ada", reason=f"password={CANARY}"),
        "explain paused": lambda: admin.explain(id),
        "bulk": lambda: admin.bulk("cancel", {"correlation_id": f"password={CANARY}"}, reason=f"token={CANARY}"),
        "events after": lambda: admin.events(id),
        "audit": admin.audit,
    }


def test_the_canary_leaves_through_no_method(jobs: Jobs, clock: FakeClock) -> None:
    id = _leaky(jobs, clock)
    for name, read in _reads(jobs, id).items():
        answer = read()
        assert CANARY not in repr(answer), name
        assert CANARY.encode() not in msgspec.json.encode(answer), name


def test_the_canary_leaves_through_no_method_of_those_who_do_not_have_the_definition(
    jobs: Jobs, clock: FakeClock
) -> None:
    id = _leaky(jobs, clock)
    jobs.recurring("nightly", "leaky", {"colour": CANARY}, every=3600)
    stranger = Jobs(jobs.storage)
    reads = _reads(stranger, id) | {
        "list_recurring": stranger.admin.list_recurring,
        "get_recurring": lambda: stranger.admin.get_recurring("nightly"),
        "trigger_recurring": lambda: stranger.admin.trigger_recurring("nightly"),
        "delete_recurring": lambda: stranger.admin.delete_recurring("nightly"),
    }
    for name, read in reads.items():
        answer = read()
        assert CANARY not in repr(answer), name
        assert CANARY.encode() not in msgspec.json.encode(answer), name


def test_the_keys_of_a_schedule_that_is_declared_are_hidden_before_it_ever_fires(jobs: Jobs) -> None:
    jobs.declare("leaky", redact=("colour",))
    jobs.declare_recurring("nightly", "leaky", {"colour": CANARY}, cron="0 2 * * *")
    jobs.schedules.sync()
    assert CANARY not in repr(Jobs(jobs.storage).admin.list_recurring())


def test_why_a_queue_is_paused_is_shown_without_secrets(jobs: Jobs) -> None:
    jobs.declare("say")
    jobs.enqueue("say")
    told = f"maintenance, password={CANARY}"
    answers = [
        jobs.admin.pause_queue("default", actor=f"ada password={CANARY}", reason=told),
        jobs.admin.get_queue("default"),
        *jobs.admin.list_queues(),
    ]
    assert all("maintenance" in str(queue.pause_reason) and "ada" in str(queue.paused_by) for queue in answers)
    assert CANARY not in repr(answers)


def test_what_is_no_secret_is_shown(jobs: Jobs, clock: FakeClock) -> None:
    view = jobs.admin.get_job(_leaky(jobs, clock))
    assert isinstance(view.payload_preview.value, dict)
    assert view.payload_preview.value["fine"] == "shown"
    assert view.payload_preview.redacted == 7
    assert view.metadata == {"token": "[redacted]", "team": "growth"}
    assert not hasattr(view, "payload")
    assert "cannot log in" in (view.error_message or "")


def test_a_result_is_shown_redacted(jobs: Jobs) -> None:
    view = jobs.admin.get_job(scene.succeeded(jobs, result={"sent": 3, "password": CANARY}).id)
    assert view.result == {"sent": 3, "password": "[redacted]"}
    assert jobs.admin.get_job(scene.queued(jobs).id).result_preview is None


def test_a_payload_that_cannot_be_read_is_unavailable_and_never_raw(jobs: Jobs) -> None:
    scene.many_rows(jobs, 1, "queued", payload=f"{{broken {CANARY}", id="job_broken")
    view = jobs.admin.get_job("job_broken")
    assert (view.payload_preview.available, view.payload_preview.text) == (False, "unavailable")
    assert CANARY not in repr(view)


@pytest.mark.parametrize("name", ["a/b", "..", '"quoted"', "emoji 🎉", "right\u202eleft", "<script>"])
def test_hostile_names_are_only_text(jobs: Jobs, name: str) -> None:
    jobs.declare(name)
    job = jobs.enqueue(name, {}, queue=name, correlation_id=name)
    assert jobs.admin.get_job(job.id).name == name
    assert scene.ids_of(jobs.admin.list_jobs(queue=name, name=name).items) == [job.id]
    assert scene.ids_of(jobs.admin.list_jobs(correlation_id=name).items) == [job.id]
    assert jobs.admin.pause_queue(name).paused
    assert jobs.admin.explain(job.id).verdict
