"""``sloppyjobs signal``, and the steps that ``show`` shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sloppyjobs import Jobs
from sloppyjobs.cli import main


@pytest.fixture
def url(ready_sqlite_url: str) -> str:
    return ready_sqlite_url


@pytest.fixture
def waiting(url: str) -> str:
    """A job that waits for a signal."""
    jobs = Jobs(url)

    @jobs.define("refund")
    def refund(ctx: Any, _payload: Any) -> Any:
        ctx.step("load", lambda: {"password": "canary", "order": 7})
        return ctx.wait_for("approved")

    job = jobs.enqueue("refund", business_key="order:7")
    jobs.create_worker().run_once()
    return job.id


def _run(url: str, *arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["--database", url, *arguments], input=given)


def test_a_signal_is_sent_once(url: str, waiting: str) -> None:
    done = _run(url, "signal", waiting, "approved", '{"by": "ada"}', "--actor", "ada", "--reason", "by phone")
    assert (done.exit_code, done.output) == (0, "signal approved sent\n")
    again = _run(url, "signal", waiting, "approved", "--json")
    assert (again.exit_code, json.loads(again.output)) == (1, {"accepted": False})
    [entry] = Jobs(url).admin.audit(waiting)
    assert (entry.action, entry.actor, entry.reason) == ("signal", "ada", "by phone")


def test_a_signal_by_business_key_from_a_file(url: str, waiting: str, tmp_path: Path) -> None:
    file = tmp_path / "value.json"
    file.write_text('["canary"]')
    done = _run(url, "signal", "--business-key", "order:7", "approved", "--file", str(file), "--json")
    assert (done.exit_code, json.loads(done.output)) == (0, {"accepted": True})
    assert Jobs(url).get(waiting).status == "queued"


def test_what_cannot_be_sent_is_refused(url: str, waiting: str) -> None:
    for code, arguments in (
        (2, (waiting, "approved", "{broken canary")),
        (1, (waiting, " ", "1")),
        (1, ("job_unknown", "approved")),
    ):
        done = _run(url, "signal", *arguments)
        assert done.exit_code == code, done.output
        assert "canary" not in done.output
    Jobs(url).admin.cancel(waiting)
    done = _run(url, "signal", waiting, "approved")
    assert (done.exit_code, "cancelled" in done.output) == (1, True)


def test_show_has_the_steps_without_secrets(url: str, waiting: str) -> None:
    shown = _run(url, "show", waiting).output
    assert "load" in shown
    assert "approved" in shown
    assert "canary" not in shown
    document = json.loads(_run(url, "show", waiting, "--json").output)
    assert [one["name"] for one in document["steps"]] == ["load", "approved"]
    assert "canary" not in json.dumps(document)


def test_doctor_repairs_what_is_suspended_for_nothing(url: str, waiting: str) -> None:
    jobs = Jobs(url)
    assert jobs.admin.repair() == {"waiting": 0, "batches": 0, "keys": 0}
    jobs.storage.inspection.set_step(waiting, "approved", state="done")
    done = _run(url, "doctor", "--repair", "--actor", "ada")
    assert "1 jobs went on" in done.output
    assert jobs.get(waiting).status == "queued"
    [entry] = jobs.admin.audit("repair")
    assert (entry.action, entry.actor, entry.detail["waiting"]) == ("repair", "ada", 1)
