"""The audit trail in words: every action that the code writes has a sentence."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from every_page import Addresses
from hosts import PREFIX, Client
from markupsafe import Markup

import sloppyjobs
from sloppyjobs import Jobs
from sloppyjobs.admin.actions import ACTIONS
from sloppyjobs.views import AuditEntry
from webui.audit_words import ACTIONS as WORDS
from webui.audit_words import CHOICES, entry_text
from webui.times import Times
from webui.views.activity import PLACES

NOW = datetime(2030, 5, 20, 12, tzinfo=UTC)
_COMMAND = re.compile(r'\b(?:command_given|Command)\(\s*"(\w+)"')


def _entry(action: str, target_type: str, target: str, **detail: Any) -> AuditEntry:
    return AuditEntry(
        id="audit_1", created_at=NOW, action=action, target_type=target_type, target=target, detail=detail
    )


def _link(kind: str, target: str, text: str | None = None) -> Markup:
    return Markup("<{}>").format(text or target)


def _say(action: str, target_type: str, target: str, **detail: Any) -> str:
    """What and details, as plain text."""
    entry = _entry(action, target_type, target, **detail)
    found = entry_text(entry, Times(ZoneInfo("UTC"), NOW), _link)
    text = " | ".join([str(found.what), *map(str, found.details)])
    return str(Markup(re.sub(r"</?time[^>]*>", "", text)).unescape())


def test_every_action_that_the_code_writes_has_words() -> None:
    source = Path(sloppyjobs.__file__).parent
    files = [file for file in source.rglob("*.py") if "testing" not in file.parts]
    written = {name for file in files for name in _COMMAND.findall(file.read_text(encoding="utf-8"))}
    assert {"pause_queue", "trigger_recurring", "cleanup", "purge"} <= written
    assert written | set(ACTIONS) <= set(WORDS)
    assert {"retry_canary", "retry_rest", "stop_retry_run"} <= set(WORDS)


def test_no_label_of_an_action_is_its_name_in_code() -> None:
    assert not [label for label in CHOICES.values() if "_" in label]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (("retry", "job", "job_1", {"from": "dead", "to": "queued"}), "Retried the job <job_1> | from dead to queued"),
        (("run_now", "job", "job_1", {}), "Queued the job <job_1> at once"),
        (("pause_queue", "queue", "emails", {}), "Paused the queue <emails>"),
        (
            ("pause_queue", "queue", "emails", {"until": "2030-05-20T16:00:00+00:00"}),
            "Paused the queue <emails> until 16:00:00",
        ),
        (("trigger_recurring", "schedule", "s", {"job": "job_2"}), "Triggered the schedule <s> | its job is <job_2>"),
        (("create_recurring", "schedule", "s", {"job_name": "sync"}), "Created the schedule <s> | it runs sync"),
        (("edit_recurring", "schedule", "s", {"job_name": "sync"}), "Changed the schedule <s> | it runs sync"),
        (("delete_recurring", "schedule", "s", {"job_name": "sync"}), "Deleted the schedule <s> | it ran sync"),
        (("cleanup", "jobs", "cleanup", {"succeeded": 9, "dead": 0}), "Deleted old finished jobs | 9 succeeded"),
        (
            ("purge", "jobs", "purge", {"jobs": 7, "archived": True, "audit": 2}),
            "Removed deleted jobs for good | 7 jobs, kept in the archive | 2 audit entries",
        ),
        (
            ("purge", "jobs", "purge", {"jobs": 1, "audit": 1}),
            "Removed deleted jobs for good | 1 job, history included | 1 audit entry",
        ),
        (
            ("retry_canary", "cause", "c1", {"name": "send", "error_type": "SmtpTimeout", "jobs": 5}),
            "Retried a few jobs of the cause <SmtpTimeout in send> | 5 jobs",
        ),
        (
            (
                "set_limit",
                "limit",
                "api",
                {
                    "from": {"concurrency": None, "rate": None, "per": None},
                    "to": {"concurrency": 2, "rate": 100, "per": 60.0},
                },
            ),
            "Changed the limit <api> | from no limit to 2 at once, 100 per minute",
        ),
        (
            ("delete_limit", "limit", "api", {"from": {"concurrency": 1, "rate": None, "per": None}}),
            "Deleted the limit <api> | it was 1 at once",
        ),
        (("set_limit", "limit", "api", {"to": {"concurrency": "odd"}}), "Changed the limit <api> | to no limit"),
        (
            ("retry_workflow", "workflow", "flow_1", {"matched": 3, "done": 1, "skipped": {"already queued": 2}}),
            "Retried the dead jobs of the workflow <flow_1> | 1 job | 2 skipped: already queued",
        ),
        (
            ("cancel_workflow", "workflow", "flow_1", {"done": 3, "skipped": {}}),
            "Cancelled the workflow <flow_1> | 3 jobs",
        ),
        (("melt_down", "core", "x", {"heat": 3}), "Melt down <x> | heat 3"),
    ],
)
def test_an_entry_is_said_in_words(entry: tuple[str, str, str, dict[str, Any]], words: str) -> None:
    action, kind, target, detail = entry
    assert _say(action, kind, target, **detail) == words


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        (
            {"filter": {"status": "dead", "error_type": "SmtpTimeout", "error_frame": None}, "done": 41},
            "Retried 41 jobs | that match status dead, error SmtpTimeout",
        ),
        (
            {
                "filter": {"ids": ["job_1", "job_2", "job_3", "job_4", "job_5"]},
                "done": 4,
                "skipped": {"already queued": 1},
            },
            "Retried 4 jobs | chosen one by one: <job_1>, <job_2>, <job_3> and 2 more | 1 skipped: already queued",
        ),
        ({"filter": {"ids": "300 of them"}, "done": 1}, "Retried 1 job | chosen one by one"),
        (
            {"filter": {"status": ["dead", "cancelled"], "created_from": "2030-05-20T10:00:00Z"}, "done": 0},
            "Retried no jobs | that match status dead or cancelled, created from 10:00:00",
        ),
        ({"done": 3}, "Retried 3 jobs"),
    ],
)
def test_a_command_on_many_jobs_says_how_many_and_which(detail: dict[str, Any], words: str) -> None:
    assert _say("retry", "jobs", "bulk retry", **detail) == words


def test_hostile_text_is_escaped() -> None:
    bad = "<script>alert(1)</script>"
    entry = _entry("retry", "jobs", "bulk retry", filter={"name": bad, "created_from": bad, bad: bad}, done=1)
    for one in (entry, _entry(bad, bad, bad, **{bad: bad, "from": bad, "to": bad})):
        found = entry_text(one, Times(ZoneInfo("UTC"), NOW), lambda _kind, name: Markup.escape(name))
        assert "<script" not in Markup(" ").join([found.what, *found.details])


def test_every_kind_of_target_has_a_link_to_its_page(admin: Client, played: Jobs) -> None:
    of = Addresses(played).id
    batch = played.admin.list_batches(status="open")[0].id
    played.admin.cancel_batch(batch)
    played.admin.retry_canary(of("cause"), 1)
    played.admin.retry(of("dead"))
    played.admin.pause_queue("emails")
    played.admin.pause_recurring("nightly-rollup")
    played.admin.set_limit("payments-api", concurrency=2)
    played.admin.cancel_workflow(of("workflow"))
    played.admin.restore(of("archived"))
    played.admin.quiet_worker(of("worker"))
    pages = {
        "worker": f"/workers/{of('worker')}",
        "job": f"/jobs/{of('dead')}",
        "queue": "/queues/emails",
        "schedule": "/recurring/nightly-rollup",
        "limit": "/limits/payments-api",
        "batch": f"/batches/{batch}",
        "workflow": f"/workflows/{of('workflow')}",
        "cause": f"/dead/{of('cause')}",
        "archived": f"/archive/{of('archived')}",
    }
    assert pages.keys() == PLACES.keys()
    text = admin.get("/audit").text
    for path in pages.values():
        assert f'<a href="{PREFIX}{path}">' in text
        assert admin.get(path).status_code == 200
