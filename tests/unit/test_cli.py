"""The command line on SQLite: what each command prints, its exit code, and the texts of its errors."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
import warm_start
from click.testing import CliRunner, Result

from sloppyjobs import storage
from sloppyjobs.cli import main
from sloppyjobs.cli.root import COMMANDS
from sloppyjobs.cli.target import Target
from sloppyjobs.ids import shortened
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock

NOON = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
SECRET = "canary-5e3b"

Run = Callable[..., Result]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


@pytest.fixture
def jobs(ready_sqlite_url: str, clock: FakeClock):
    kept = storage.sqlite(ready_sqlite_url, clock=clock)
    jobs = Jobs(kept)
    jobs.define("greet", lambda _ctx, _payload: "hello", queue="post")
    yield jobs
    kept.close()


@pytest.fixture
def run(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command on the test's database."""
    monkeypatch.setenv("LOGNAME", "ada")

    def invoke(*arguments: str, code: int = 0, input: str | None = None) -> Result:
        result = CliRunner().invoke(main, arguments, prog_name="sloppyjobs", obj=Target(given=jobs), input=input)
        assert result.exit_code == code, result.output + repr(result.exception)
        return result

    return invoke


@pytest.fixture
def ask(run: Run) -> Callable[..., Any]:
    """The JSON document that a command prints."""
    return lambda *arguments, **named: json.loads(run(*arguments, "--json", **named).stdout)


def _dead(jobs: Jobs, count: int = 1) -> list[str]:
    ids = [jobs.enqueue("greet", {"token": SECRET}, max_attempts=1).id for _ in range(count)]
    for claim in jobs.claim("worker-1", queues=("*",), limit=count):
        jobs.fail(claim, ValueError(f"password={SECRET}"))
    return ids


# The root


def test_help_names_every_command_without_importing_the_library(tmp_path: Path) -> None:
    code = "import sys; from sloppyjobs.cli import main; main(['--help'], standalone_mode=False); "
    code += "print([name for name in ('sqlalchemy', 'rich', 'alembic', 'flask') if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.endswith("[]\n")
    for name in COMMANDS:
        assert re.search(rf"^  {name}  ", printed, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_short_help_of_a_command_is_the_one_at_the_root(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    first = (command.help or "").split("\n\n")[0]
    said = COMMANDS[name].help.rstrip(".")
    assert first.replace("\n", " ").rstrip(".").startswith(said.split(";")[0].split(",")[0])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, run: Run) -> None:
    assert "Usage: sloppyjobs" in run(name, "--help").output


READS = [
    ["status"],
    ["list"],
    ["list", "--all-pages"],
    ["dead"],
    ["workers"],
    ["workers", "list"],
    ["deploys"],
    ["locks"],
    ["job-types"],
    ["audit"],
    ["queues"],
    ["queues", "list"],
    ["recurring"],
    ["recurring", "list"],
    ["recurring", "preview", "--cron", "0 2 * * *"],
    ["tick"],
]


@pytest.mark.parametrize("command", READS, ids=" ".join)
def test_every_read_prints_one_json_document_with_and_without_jobs(
    command: list[str], jobs: Jobs, run: Run, ask: Callable[..., Any]
) -> None:
    assert isinstance(ask(*command), dict)
    _dead(jobs, 2)
    jobs.enqueue("greet", delay=60)
    assert isinstance(ask(*command), dict)
    assert run(*command).stdout.strip()


# Lists and single jobs


def test_a_list_shows_ids_whole_and_no_colour_in_a_pipe(jobs: Jobs, run: Run) -> None:
    [job_id] = _dead(jobs)
    jobs.define("a-job-with-a-very-long-name-" * 4, lambda *_: None)
    jobs.enqueue("a-job-with-a-very-long-name-" * 4, queue="a-queue-with-a-long-name-" * 4)
    printed = run("list").stdout
    assert "\x1b" not in printed
    assert re.search(rf"^{job_id}  dead +greet +post +0s +1/1 +ValueError *$", printed, re.MULTILINE)
    assert "a-job-with-a-very-long-name-" * 4 in printed


def test_a_list_is_narrowed_by_filters(jobs: Jobs, clock: FakeClock, ask: Callable[..., Any]) -> None:
    [dead] = _dead(jobs)
    clock.advance(timedelta(hours=3))
    later = jobs.enqueue("greet", delay=60, correlation_id="c-1").id
    assert [job["id"] for job in ask("list")["items"]] == [later, dead]
    assert [job["id"] for job in ask("list", "--status", "dead,queued")["items"]] == [dead]
    assert [job["id"] for job in ask("list", "--created-from", "2h")["items"]] == [later]
    assert [job["id"] for job in ask("list", "--created-to", "2030-01-01T13:00:00+00:00")["items"]] == [dead]
    assert [job["id"] for job in ask("list", "--correlation-id", "c-1")["items"]] == [later]
    assert ask("list", "--name", "other")["items"] == []


def test_pages_go_on_by_the_cursor(jobs: Jobs, run: Run, ask: Callable[..., Any]) -> None:
    ids = [jobs.enqueue("greet").id for _ in range(5)]
    first = ask("list", "--page-size", "3", "--order", "created_at")
    assert [job["id"] for job in first["items"]] == ids[:3]
    second = ask("list", "--page-size", "3", "--order", "created_at", "--cursor", first["next_cursor"])
    assert [job["id"] for job in second["items"]] == ids[3:]
    every = ask("list", "--page-size", "2", "--order", "created_at", "--all-pages")
    assert [job["id"] for job in every["items"]] == ids
    shown = run("list", "--page-size", "3", "--order", "created_at")
    assert f"--cursor {first['next_cursor']}" in shown.stderr
    assert run("list", "--all-pages", "--page-size", "2").stdout.count("STATUS") == 1


def test_show_has_the_history_and_no_secret(jobs: Jobs, run: Run, ask: Callable[..., Any]) -> None:
    [job_id] = _dead(jobs)
    document = ask("show", job_id)
    assert (document["id"], document["status"]) == (job_id, "dead")
    assert document["payload_preview"]["value"] == {"token": "[redacted]"}
    assert [event["to_status"] for event in document["events"]] == ["queued", "processing", "failed", "dead"]
    assert document["attempts"][0]["error_type"] == "ValueError"
    assert document["created_at"] == "2030-01-01T12:00:00Z"
    printed = run("show", job_id).stdout
    for part in (job_id, "payload (1 hidden)", "attempts", "events", "retry, delete", "2030-01-01 12:00:00Z"):
        assert part in printed
    assert SECRET not in printed + json.dumps(document)


def test_the_secret_keys_of_a_definition_are_hidden_without_the_definition(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    shop = Jobs(url)
    shop.storage.init()
    shop.declare("refund", redact=("iban_of_friend",))
    job = shop.enqueue("refund", {"iban_of_friend": SECRET, "order": 7})
    shop.storage.close()
    for arguments in (("show", job.id), ("show", job.id, "--json")):
        shown = CliRunner().invoke(main, ["--database", url, *arguments])
        assert shown.exit_code == 0
        assert SECRET not in shown.output and "[redacted]" in shown.output and "order" in shown.output


def test_text_from_the_database_cannot_steer_the_terminal(jobs: Jobs, run: Run) -> None:
    jobs.enqueue("greet", max_attempts=1)
    [claim] = jobs.claim("worker-1", queues=("*",))
    jobs.fail(claim, "\x1b[2Jgone \x9b31m [bold]not markup[/] \u202eback")
    printed = run("show", claim.id).stdout + run("dead").stdout
    assert not set(printed) & set("\x1b\x9b\u202e")
    assert "[bold]not markup[/]" in printed


def test_explain_says_why_a_job_does_not_run(jobs: Jobs, run: Run, ask: Callable[..., Any]) -> None:
    job = jobs.enqueue("greet")
    assert "No live worker" in run("explain", job.id).stdout
    assert ask("explain", job.id)["reasons"][0]["code"] == "no_worker"


# Commands on jobs


def test_a_command_on_one_job_is_signed_by_the_user_of_the_system(
    jobs: Jobs, run: Run, ask: Callable[..., Any]
) -> None:
    [job_id] = _dead(jobs)
    assert run("retry", job_id, "--reason", "mended").stdout == f"{job_id} is queued\n"
    [entry] = ask("audit", "--target", job_id)["items"]
    assert (entry["action"], entry["actor"], entry["reason"]) == ("retry", "ada", "mended")
    assert run("cancel", job_id, "--actor", "grace").stdout == f"{job_id} is cancelled\n"
    assert ask("audit", "--actor", "grace")["items"][0]["action"] == "cancel"
    assert "mended" in run("audit").stdout


def test_every_command_on_a_job_does_what_it_says(jobs: Jobs, run: Run) -> None:
    later = jobs.enqueue("greet", delay=60).id
    for verb, status in (("pause", "paused"), ("resume", "scheduled"), ("run-now", "queued"), ("delete", "deleted")):
        assert run(verb, later).stdout == f"{later} is {status}\n"


def test_of_several_ids_those_that_work_are_done_and_the_others_named(jobs: Jobs, run: Run) -> None:
    [dead] = _dead(jobs)
    result = run("retry", "job_none", dead, code=1)
    assert result.stdout == f"{dead} is queued\n"
    assert "no job has the id 'job_none'" in result.stderr


def test_a_bulk_command_shows_what_it_found_and_asks(jobs: Jobs, run: Run) -> None:
    ids = _dead(jobs, 12)
    asked = run("retry", "--status", "dead", "--name", "greet", input="n\n", code=1)
    assert "retry 12 jobs? [y/N]" in asked.stderr and "… and 2 more" in asked.stderr
    assert {jobs.get(id).status for id in ids} == {"dead"}
    assert "retried 12 of 12 jobs" in run("retry", "--status", "dead", input="y\n").stdout
    assert {jobs.get(id).status for id in ids} == {"queued"}


def test_a_bulk_command_can_go_without_asking_and_up_to_a_limit(jobs: Jobs, ask: Callable[..., Any]) -> None:
    _dead(jobs, 3)
    done = ask("delete", "--status", "dead", "--limit", "2", "--yes")
    assert (done["done"], done["matched"], done["more"]) == (2, 2, True)


def test_a_bulk_command_is_done_in_parts_with_one_tally(jobs: Jobs, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sloppyjobs.cli.commands.AT_ONCE", 2)
    jobs.enqueue_many([("greet", {})] * 7)
    assert run("cancel", "--name", "greet", "--yes").stdout == "cancelled 7 of 7 jobs\n"
    assert len(jobs.admin.audit(target="bulk cancel")) == 4


def test_a_bulk_command_that_finds_nothing_does_not_ask(run: Run) -> None:
    assert "no jobs found" in run("cancel", "--queue", "nowhere").stderr


@pytest.mark.parametrize("given", [[], ["job_1", "--status", "dead"]])
def test_a_command_wants_ids_or_filters(given: list[str], run: Run) -> None:
    assert "give the ids of jobs to cancel, or filters" in run("cancel", *given, code=2).stderr


# Queues and schedules


def test_pausing_a_queue_that_nobody_knows_is_refused_unless_it_is_meant(run: Run) -> None:
    refused = run("queues", "pause", "nonesuch", code=1).stderr
    assert "no queue is called 'nonesuch'; known are" in refused
    assert "--create" in refused
    assert run("queues", "pause", "nonesuch", "--create").stdout == "queue nonesuch is paused\n"


def test_a_queue_is_paused_for_a_while_and_resumed(jobs: Jobs, run: Run, ask: Callable[..., Any]) -> None:
    jobs.enqueue("greet")
    assert run("queues", "pause", "post", "--until", "30m").stdout == "queue post is paused, ends in 30m\n"
    [queue] = ask("queues")["items"]
    assert (queue["paused"], queue["paused_until"]) == (True, "2030-01-01T12:30:00Z")
    assert "paused, ends in 30m" in run("queues").stdout
    assert run("queues", "resume", "post").stdout == "queue post is open\n"


def test_schedules_are_listed_and_steered(jobs: Jobs, run: Run, ask: Callable[..., Any]) -> None:
    jobs.recurring("hourly", "greet", {"token": SECRET}, cron="0 * * * *", timezone="Europe/Paris")
    listed = run("recurring", "list").stdout
    assert re.search(r"hourly +greet +0 \* \* \* \* Europe/Paris +in 1h +never +on", listed)
    assert SECRET not in json.dumps(ask("recurring", "list"))
    assert "does not fire" in run("recurring", "pause", "hourly").stdout
    assert "fires next in 1h" in run("recurring", "resume", "hourly").stdout
    assert ask("recurring", "preview", "hourly", "--count", "2")["items"] == [
        "2030-01-01T13:00:00Z",
        "2030-01-01T14:00:00Z",
    ]
    assert "is queued" in run("recurring", "trigger", "hourly").stdout
    assert "remove the schedule hourly" in run("recurring", "delete", "hourly", input="n\n", code=1).stderr
    assert run("recurring", "delete", "hourly", "--yes").stdout == "schedule hourly is removed\n"
    assert "no schedule is named 'hourly'" in run("recurring", "pause", "hourly", code=1).stderr


def test_an_expression_can_be_tried_before_it_is_a_schedule(run: Run) -> None:
    assert "Europe/Paris" in run("recurring", "preview", "--cron", "0 2 * * *", "--timezone", "Europe/Paris").stdout
    assert "RECURRING_INVALID_CRON" in run("recurring", "preview", "--cron", "61 * * * *", code=1).stderr
    assert "give the name of a schedule" in run("recurring", "preview", code=2).stderr


def test_tick_enqueues_what_is_due(jobs: Jobs, clock: FakeClock, run: Run, ask: Callable[..., Any]) -> None:
    jobs.recurring("often", "greet", {"token": SECRET}, every=60)
    assert run("tick").stdout == "nothing was due\n"
    clock.advance(60)
    [job] = ask("tick")["items"]
    assert (job["name"], job["status"]) == ("greet", "queued")


# Keeping in order


def test_cleanup_goes_on_until_nothing_is_left(jobs: Jobs, clock: FakeClock, run: Run, ask: Callable[..., Any]) -> None:
    _dead(jobs, 5)
    clock.advance(timedelta(days=10))
    assert ask("cleanup")["total"] == 0
    assert ask("cleanup", "--dead", "never")["total"] == 0
    assert ask("cleanup", "--dead", "1w", "--batch", "2", "--limit", "3") == {
        "deleted": {"succeeded": 0, "cancelled": 0, "dead": 3},
        "total": 3,
    }
    assert "deleted 2 jobs: 0 succeeded, 0 cancelled, 2 dead" in run("cleanup", "--dead", "7d", "--batch", "1").stdout
    assert len(ask("list", "--status", "deleted")["items"]) == 5


def test_purge_asks_unless_it_archives(jobs: Jobs, clock: FakeClock, run: Run, ask: Callable[..., Any]) -> None:
    for job_id in _dead(jobs, 3):
        jobs.admin.delete(job_id)
    clock.advance(timedelta(days=2))
    assert "remove jobs for good" in run("purge", input="n\n", code=1).stderr
    done = ask("purge", "--archive", "--limit", "1")
    assert (done["jobs"], done["archived"]) == (1, True)
    assert "removed 2 jobs" in run("purge", "--yes").stdout
    assert ask("list", "--status", "deleted")["items"] == []


def test_workflows_are_listed_shown_retried_and_cancelled(jobs: Jobs, run: Run, ask: Callable[..., Any]) -> None:
    assert "no workflows" in run("workflows").stdout
    with jobs.workflow("nightly", metadata={"password": "s3cret"}) as flow:
        first = flow.add("greet", max_attempts=1)
        flow.add("greet", after=first)
        flow.add("greet", after=first, on="failure")
    [claim] = jobs.claim("w1", queues=("*",))
    jobs.fail(claim, ValueError("no"))
    [claim] = jobs.claim("w1", queues=("*",))
    jobs.complete(claim)
    [found] = ask("workflows", "--status", "blocked")["items"]
    assert (found["id"], found["counts"]) == (flow.id, {"dead": 1, "succeeded": 1, "waiting": 1})
    assert flow.id in run("workflows", "list", "--name", "nightly").stdout
    assert ask("workflows", "list", "--created-to", "1h")["items"] == []
    shown = run("workflows", "show", flow.id).stdout
    assert "1 job waits for it" in shown
    assert "(failure)" in shown
    assert "s3cret" not in shown
    assert [one["status"] for one in ask("workflows", "show", flow.id)["members"]["items"]] == [
        *("dead", "waiting", "succeeded"),
    ]
    assert "1 job retried" in run("workflows", "retry", flow.id).stdout
    assert ask("workflows", "cancel", flow.id, "--reason", "over")["done"] == 2
    assert ask("workflows", "show", flow.id)["cancel_reason"] == "over"
    assert "no workflow has the id" in run("workflows", "show", "flow_none", code=1).stderr


def test_the_archive_is_listed_shown_and_restored_from(
    jobs: Jobs, clock: FakeClock, run: Run, ask: Callable[..., Any]
) -> None:
    assert "no archived jobs" in run("archive").stdout
    [old, other] = _dead(jobs, 2)
    for job_id in (old, other):
        jobs.admin.delete(job_id)
    clock.advance(timedelta(days=2))
    jobs.admin.purge(archive=True)
    assert {one["id"] for one in ask("archive")["items"]} == {old, other}
    assert [one["id"] for one in ask("archive", "list", "--id", old)["items"]] == [old]
    assert ask("archive", "list", "--created-from", "1d")["items"] == []
    assert len(ask("archive", "list", "--created-from", "7d", "--name", "greet")["items"]) == 2
    assert old in run("archive", "list", "--page-size", "500").stdout
    shown = run("archive", "show", shortened(old)).stdout
    assert "dead before it was deleted" in shown
    assert ask("archive", "show", old)["ended_as"] == "dead"
    new = ask("archive", "restore", shortened(old), "--reason", "again")
    assert (new["status"], new["metadata"]) == ("queued", {"restored_from": old})
    assert "restored already" in run("archive", "restore", old, code=1).stderr
    assert "no archived job" in run("archive", "show", "job_none", code=1).stderr
    assert f"restored as {new['id']}" in run("archive").stdout
    entry = ask("audit", "--target", old)["items"][0]
    assert (entry["action"], entry["actor"], entry["reason"]) == ("restore", "ada", "again")


def test_a_payload_is_patched_and_never_printed(jobs: Jobs, run: Run, ask: Callable[..., Any], tmp_path: Path) -> None:
    job = jobs.enqueue("greet", {"a": 1})
    assert f"{job.id} is queued, patched" in run("patch", shortened(job.id), '{"a": 2}').stdout
    result = run("patch", job.id, "--file", "-", "--reason", "typo", input=f'{{"token": "{SECRET}"}}')
    assert SECRET not in result.output
    file = tmp_path / "patch.json"
    file.write_text('{"b": null, "c": 3}')
    assert ask("patch", job.id, "--file", str(file))["status"] == "queued"
    assert [entry["detail"] for entry in ask("audit", "--target", job.id)["items"]] == [
        {"keys": ["/c"]},
        {"keys": ["/token"]},
        {"keys": ["/a"]},
    ]
    for arguments, said in (
        ((job.id,), "give the patch as an argument, or with --file"),
        ((job.id, f'{{"{SECRET}": '), "not JSON"),
    ):
        refused = run("patch", *arguments, code=2)
        assert said in refused.stderr
        assert SECRET not in refused.output
    assert "must be a JSON object" in run("patch", job.id, "[1]", code=1).stderr
    [claim] = jobs.claim("w", queues=("*",))
    assert claim.payload == {"a": 2, "token": SECRET, "c": 3}
    assert "runs" in run("patch", job.id, '{"a": 3}', code=1).stderr


def test_alerts_are_listed_and_tested(jobs: Jobs, clock: FakeClock, run: Run, ask: Callable[..., Any]) -> None:
    told: list[str] = []
    assert "no rules for alerts" in run("alerts").stdout
    assert "no alerts" in run("alerts", "list").stdout
    jobs.declare_alert("dead-post", on="dead", queue="post", deliver=lambda alert: told.append(alert.text))
    _dead(jobs, 1)
    worker = jobs.create_worker(queues=("none",))
    worker.run_once()
    assert "A dead job in post" in run("alerts").stdout
    assert [(one["name"], one["declared"]) for one in ask("alerts")["items"]] == [("dead-post", True)]
    assert "sent" in run("alerts", "list").stdout
    assert len(ask("alerts", "list", "--rule", "dead-post")["items"]) == 1
    clock.advance(1)
    assert "is queued" in run("alerts", "test", "dead-post", "--reason", "new channel").stdout
    assert ask("alerts", "list")["items"][0]["status"] == "pending"
    worker.run_once()
    assert told[-1] == "This is a test of dead-post, sent by ada."
    assert "no alert is called" in run("alerts", "test", "other", code=1).stderr


def test_alerts_are_muted_and_unmuted(jobs: Jobs, clock: FakeClock, run: Run, ask: Callable[..., Any]) -> None:
    jobs.declare_alert("dead-post", on="dead", queue="post", deliver=lambda alert: None)
    worker = jobs.create_worker(queues=("none",))
    worker.run_once()
    assert "rule dead-post is muted" in run("alerts", "mute", "dead-post", "--reason", "moving").stdout
    _dead(jobs, 1)
    clock.advance(20)
    worker.run_once()
    assert [one["status"] for one in ask("alerts", "list")["items"]] == ["muted"]
    assert "muted" in run("alerts").stdout
    assert "muted, ends in 2" in run("alerts", "mute", "dead-post", "--until", "2h").stdout
    assert "alerts of rule dead-post are sent again" in run("alerts", "unmute", "dead-post").stdout
    assert "no alert is called" in run("alerts", "mute", "other", code=1).stderr


def test_a_queue_ages_unless_its_name_is_mistyped(jobs: Jobs, run: Run) -> None:
    jobs.declare("send", queue="mail")
    jobs.enqueue("send")
    assert "priorities in mail rise by one every 60 s" in run("queues", "age", "mail", "--every", "1m").stdout
    assert "no queue is called 'mial'" in run("queues", "age", "mial", "--every", "1m", code=1).stderr
    assert "priorities in mial rise" in run("queues", "age", "mial", "--every", "1m", "--create").stdout
    assert "do not change" in run("queues", "age", "mail", "--off").stdout
    assert "must be at least 1 second;" not in run("queues", "age", "mail", "--every", "0.5", code=1).stderr


# Refusals


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["list", "--status", "dea"], "'dea' is not a status"),
        (["list", "--created-from", "yesterday"], "'yesterday' is not an instant"),
        (["list", "--created-from", "2030-01-01T00:00:00"], "ISO 8601 with an offset"),
        (["list", "--page-size", "501"], "501"),
        (["cleanup", "--dead", "soon"], "'soon' is not a length of time"),
        (["nonsense"], "No such command 'nonsense'"),
    ],
)
def test_usage_errors_have_exit_code_two(arguments: list[str], text: str, run: Run) -> None:
    assert text in " ".join(run(*arguments, code=2).stderr.split())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["show", "job_none"], "UNKNOWN_JOB"),
        (["list", "--cursor", "forged"], "cursor='forged': is damaged"),
        (["list", "--order", "run_at"], "order='run_at'"),
    ],
)
def test_a_refusal_is_one_line_with_exit_code_one(arguments: list[str], text: str, run: Run) -> None:
    said = run(*arguments, code=1).stderr
    assert text in said and said.startswith("Error: ") and said.count("\n") == 1


def test_sql_prints_the_statements_for_a_database(run: Run) -> None:
    assert "CREATE TABLE sloppy_jobs" in run("sql").stdout
    assert "autovacuum" in run("sql", "--dialect", "postgresql").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str, run: Run) -> None:
    assert "_SLOPPYJOBS_COMPLETE" in run("completion", shell).stdout


def test_a_terminal_gets_colour_and_short_ids_in_eighty_columns(jobs: Jobs) -> None:
    [job_id] = _dead(jobs)
    jobs.define("a-rather-long-name-of-a-job", lambda *_: None, queue="a-rather-long-queue-name")
    other = jobs.enqueue("a-rather-long-name-of-a-job").id
    url = jobs.storage.engine.url.render_as_string()
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "sloppyjobs.cli", "--database", url, "list"]
    env = {**os.environ, "COLUMNS": "80", "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    done = warm_start.run(command, check=False, stdout=follower, stdin=follower, stderr=subprocess.PIPE, env=env)
    os.close(follower)
    printed = os.read(leader, 65_536).decode()
    os.close(leader)
    assert done.returncode == 0, done.stderr
    plain = re.sub(r"\x1b\[[0-9;]*m", "", printed)
    assert plain != printed
    assert shortened(job_id) in plain and shortened(other) in plain
    assert max(len(line) for line in plain.splitlines()) <= 80
