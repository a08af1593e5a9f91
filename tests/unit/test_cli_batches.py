"""Batches on the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from sloppyjobs import Jobs
from sloppyjobs.cli import main
from sloppyjobs.domain.retry import NO_RETRY


@pytest.fixture
def database_url(ready_sqlite_url: str) -> str:
    return ready_sqlite_url


def test_batches_are_listed_shown_and_commanded(database_url: str) -> None:
    jobs = Jobs(database_url)
    jobs.declare("work", retry=NO_RETRY)

    def run(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, ["--database", database_url, *arguments])
        assert done.exit_code == code, done.output
        return done.output

    def ask(*arguments: str) -> Any:
        return json.loads(run(*arguments, "--json"))

    assert "no batches" in run("batches")
    with jobs.batch("import", on_failure=("work", {})) as batch:
        batch.enqueue_many([("work", place) for place in range(3)])
    assert batch.id in run("batches")
    assert [one["total"] for one in ask("batches", "list")["items"]] == [3]
    assert "3 more jobs have ended" in run("batches", "show", batch.id)
    [claim] = jobs.claim("w")
    jobs.fail(claim, ValueError("no"))
    assert ask("batches", "retry", batch.id)["outstanding"] == 3
    done = ask("batches", "cancel", batch.id, "--reason", "wrong file")
    assert (done["status"], done["cancelled"], done["reason"]) == ("cancelled", 3, "wrong file")
    assert "has ended" in run("batches", "cancel", batch.id, code=1)
    assert "no batch" in run("batches", "show", "batch_none", code=1)
    opened = jobs.open_batch("stream")
    assert ask("batches", "seal", opened.id)["status"] == "succeeded"
    assert "on failure: work" in run("batches", "show", batch.id)
