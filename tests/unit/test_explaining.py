"""Every sentence that ``explain`` can say, in every combination of facts: none contradicts another."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from itertools import product
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.admin.explain import explain
from sloppyjobs.admin.job_facts import Facts, LastAttempt, LastEvent, QueuePause
from sloppyjobs.admin.sentences import At, Relative, Sentence, Since, plain
from sloppyjobs.domain.dependencies import EdgeState
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.ports.dependencies import EdgeRow
from sloppyjobs.views import CappedCount, Reason, WorkerView
from webui.labels import REASON_ICONS

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
OPEN = EdgeState.OPEN

# The first of each row contradicts every other in it.
CONTRADICTIONS = [
    ("the next free worker takes it", "No live worker", "for 'greet'", "is paused", "No worker is live"),
    ("It will not run", "It was running then", "the next free worker takes it"),
    ("renews its lease", "was not renewed", "stopped responding", "was not finished", "unless it is renewed"),
    ("The next check by a worker", "No worker is live now"),
    ("takes the job over", "the job is dead"),
    ("is due in", "was due at"),
    ("the next free worker takes it", "ahead of it in its queue"),
]


def worker(liveness: str = "running", **values: Any) -> WorkerView:
    fields: dict[str, Any] = {
        "id": "worker_1",
        "hostname": "host",
        "pid": 1,
        "queues": ("*",),
        "names": ("greet",),
        "concurrency": 1,
        "version": "1",
        "liveness": liveness,
        "started_at": NOW,
        "heartbeat_at": NOW,
        "heartbeat_seconds": 5.0,
    }
    return WorkerView(**(fields | values))


WORKERS = {
    "none": [],
    "on other queues": [worker(queues=("other",))],
    "without the handler": [worker(names=("other",))],
    "with the handler": [worker()],
}
HOLDERS = [
    None,
    *(worker(liveness, running=n) for liveness in ("running", "draining", "stale", "stopped") for n in (0, 1)),
]


ATTEMPTS = {
    None: None,
    **{
        code: LastAttempt("worker_1", status, NOW - timedelta(minutes=4), code)
        for code, status in (
            ("running", "running"),
            (errors.CANCELLED, "cancelled"),
            (errors.JobTimeout.code, "failed"),
        )
    },
}


def job(status: Status, minutes: int, attempts: int, **values: Any) -> Job:
    moment = NOW + timedelta(minutes=minutes)
    held = status is Status.PROCESSING
    fields: dict[str, Any] = {
        "id": "job_1",
        "name": "greet",
        "queue": "default",
        "status": status,
        "priority": 0,
        "run_at": moment,
        "created_at": NOW,
        "updated_at": NOW,
        "attempt_count": attempts,
        "max_attempts": 3,
        "locked_by": "worker_1" if held else None,
        "locked_until": moment if held else None,
        "finished_at": NOW if status in (Status.CANCELLED, Status.DELETED, Status.SUCCEEDED, Status.DEAD) else None,
    }
    return Job(**(fields | values))


def facts(workers: str = "with the handler", **values: Any) -> Facts:
    return Facts(NOW, None, WORKERS[workers], CappedCount(0))._replace(**values)


def died(error_type: str | None, code: str, attempts: int = 1) -> str:
    """The verdict about a job that died so."""
    dead = job(Status.DEAD, -1, attempts, error_type=error_type, error_code=code)
    return explain(dead, "no", facts()).verdict


@pytest.mark.parametrize("attempt", ATTEMPTS)
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("status", Status)
def test_no_sentence_contradicts_another(status: Status, workers: str, attempt: str | None) -> None:
    pauses = [None, QueuePause(), QueuePause(NOW + timedelta(hours=1), "ops", "index rebuild")]
    counts = [CappedCount(0), CappedCount(1), CappedCount(50, True)]
    for minutes, attempts, pause, ahead, holder in product((-5, 5), (0, 2, 3), pauses, counts, HOLDERS):
        given = Facts(NOW, pause, WORKERS[workers], ahead, holder, ATTEMPTS[attempt])
        found = explain(job(status, minutes, attempts, timeout=30.0 if attempts else None), "no", given)
        text = " ".join(reason.text for reason in found.reasons)
        for row in CONTRADICTIONS:
            assert row[0] not in text or not any(phrase in text for phrase in row[1:]), (row, text)
        assert found.verdict == found.reasons[0].text
        assert re.fullmatch(r"[A-Z0-9].*[.o]", text, re.DOTALL), text
        assert len({reason.code for reason in found.reasons}) == len(found.reasons)


@pytest.mark.parametrize("status", Status)
def test_every_reason_has_an_icon_on_its_page(status: Status) -> None:
    for minutes, workers, attempt, holder in product((-5, 5), WORKERS, ATTEMPTS, HOLDERS):
        given = facts(workers, pause=QueuePause(), holder=holder, attempt=ATTEMPTS[attempt])
        given = given._replace(silent=[worker("stale")], blocker=EdgeRow("job_2", "greet", "default", status, "", OPEN))
        for attempts in (0, 2):
            one = job(status, minutes, attempts, timeout=30.0, expires_at=NOW + timedelta(minutes=minutes))
            for reason in explain(one, "no", given).reasons:
                assert reason.code in REASON_ICONS
                assert f"``{reason.code}``" in (Reason.__doc__ or "")


def test_a_job_that_nothing_keeps_is_next() -> None:
    found = explain(job(Status.QUEUED, -1, 0), None, facts())
    assert [reason.code for reason in found.reasons] == ["next"]


def test_a_job_without_a_handler_anywhere_is_not_taken_by_the_next_free_worker() -> None:
    found = explain(job(Status.QUEUED, -1, 0), None, facts("without the handler"))
    assert [reason.code for reason in found.reasons] == ["no_handler"]


def test_a_job_that_used_all_attempts_says_which_failed() -> None:
    assert died("ValueError", errors.HandlerFailed.code, 3) == "It is dead: attempt 3 of 3 failed with ValueError: no"


def test_a_job_that_died_with_attempts_left_says_why() -> None:
    policy = "It died on attempt 1 of 3: ValueError is not retried by this job's retry policy. Error: no"
    assert died("ValueError", errors.HandlerFailed.code) == policy
    assert "its row is damaged, so it cannot be run" in died("RowUnreadable", errors.RowUnreadable.code)
    assert "an invalid payload is not retried" in died("InvalidPayload", errors.InvalidPayload.code)
    # What others report in words says nothing of a policy.
    assert died(None, "MY_CODE") == "It died on attempt 1 of 3: it failed with MY_CODE and was not retried. Error: no"


def test_only_a_live_worker_is_said_to_renew_a_lease() -> None:
    def verdict(holder: WorkerView | None) -> str:
        held = job(Status.PROCESSING, 5, 1)
        return explain(held, None, facts(holder=holder, attempt=ATTEMPTS["running"])).verdict

    assert "The worker renews its lease" in verdict(worker())
    assert verdict(worker("draining")).endswith(" The worker is shutting down.")
    for holder in (None, worker("stale"), worker("stopped")):
        assert "renews" not in verdict(holder)
    assert "Worker worker_1 stopped responding" in verdict(worker("stale"))


def test_a_job_that_overran_its_timeout_is_not_said_to_be_running_well() -> None:
    held = job(Status.PROCESSING, 5, 1, timeout=30.0)
    [reason, _] = explain(held, None, facts(holder=worker(), attempt=ATTEMPTS["running"])).reasons
    assert reason.code == "overrun"
    assert reason.text.startswith(
        "It has run for 4 min, longer than its timeout of 30 s, and worker_1 has not ended it."
    )


def test_a_handler_that_ignored_its_timeout_is_told_of_while_its_worker_has_stuck_threads() -> None:
    def codes(holder: WorkerView) -> list[str]:
        given = facts(holder=holder, attempt=ATTEMPTS[errors.JobTimeout.code])
        return [reason.code for reason in explain(job(Status.RETRYING, 5, 1), None, given).reasons]

    assert "still_running" in codes(worker(stuck=1))
    assert "still_running" not in codes(worker())
    assert "still_running" not in codes(worker("stale", stuck=1))


def test_a_job_cancelled_between_attempts_is_not_said_to_have_been_running() -> None:
    given = facts(holder=worker(running=1), attempt=ATTEMPTS[errors.JobTimeout.code])
    assert "It was running then" not in explain(job(Status.CANCELLED, 5, 1), None, given).verdict


def test_a_deleted_job_that_has_run_is_not_said_never_to_run() -> None:
    for used, words in ((0, "It will not run. A purge"), (1, "It will not run again. A purge")):
        assert words in explain(job(Status.DELETED, 5, used), None, facts()).verdict


def test_a_cancelled_job_says_by_whom_and_why() -> None:
    given = facts(last_event=LastEvent("cancelled", NOW, "ada", "superseded"))
    found = explain(job(Status.CANCELLED, 5, 0), None, given).verdict
    assert found == "Cancelled by ada at 2030-01-01 12:00:00 UTC: superseded. It will not run."


def test_a_paused_queue_says_by_whom_and_why() -> None:
    given = facts(pause=QueuePause(None, "ops", "index rebuild"))
    found = explain(job(Status.QUEUED, -1, 0), None, given).verdict
    assert found == "Its queue 'default' is paused until somebody resumes it (by ops). Reason: index rebuild."


def test_a_reader_may_write_instants_in_a_way_of_their_own() -> None:
    def write(sentence: Sentence, now: datetime) -> str:
        return "".join(part if isinstance(part, str) else type(part).__name__ for part in sentence)

    found = explain(job(Status.SCHEDULED, 5, 0), None, facts(), write)
    assert found.verdict == "It is not due yet: it is due Relative, at At."
    assert found.reasons[0].until == NOW + timedelta(minutes=5)


def test_plain_sentences_are_in_utc() -> None:
    paris = NOW.astimezone(timezone(timedelta(hours=1)))
    assert plain(("at ", At(paris)), NOW) == "at 2030-01-01 12:00:00 UTC"
    assert plain((Relative(NOW + timedelta(seconds=5_400)),), NOW) == "in 1 h 30 min"
    assert plain((Relative(NOW - timedelta(seconds=40)),), NOW) == "40 s ago"
    assert plain(("for ", Since(NOW - timedelta(minutes=4))), NOW) == "for 4 min"
