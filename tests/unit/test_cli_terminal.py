"""What a person at a terminal of 80 columns sees and types: real terminals, real processes."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest
import warm_start
from click.testing import CliRunner

from sloppyjobs import InvalidOption, Jobs, UnknownJob
from sloppyjobs.cli.root import main
from sloppyjobs.cli.target import Target
from sloppyjobs.ids import parts_of_short, shortened
from sloppyjobs.internals import internals

Run = Callable[..., str]

APPLICATION = """
from sloppyjobs import Jobs

jobs = Jobs("sqlite:///jobs.db")

@jobs.define("send-a-long-letter", queue="a-long-queue")
def send(ctx, payload):
    return "ANSWER"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an application in it, and its database."""
    (tmp_path / "letters.py").write_text(APPLICATION)
    return tmp_path


@pytest.fixture
def sloppyjobs(
    folder: Path, prepare_sqlite: Callable[[Path], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., str]]:
    """Runs a command on the database of the application, and returns what it prints."""
    monkeypatch.chdir(folder)
    prepare_sqlite(folder / "jobs.db")
    jobs = Jobs("sqlite:///jobs.db")
    jobs.declare("send-a-long-letter", queue="a-long-queue")

    def run(*arguments: str, code: int = 0, input: str | None = None) -> str:
        result = CliRunner().invoke(main, arguments, prog_name="sloppyjobs", obj=Target(given=jobs), input=input)
        assert result.exit_code == code, result.output + repr(result.exception)
        return result.stdout if code == 0 else result.stderr

    yield run
    jobs.storage.close()


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "sloppyjobs", "--app", "letters:jobs", *arguments]


def at_terminal(folder: Path, *arguments: str, columns: int = 80) -> list[str]:
    """The lines that the command draws on a terminal, without colours."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns)}
    running = warm_start.Popen(command(*arguments), cwd=folder, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    drawn = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            drawn += os.read(ours, 65536)
        except OSError:
            break
    os.close(ours)
    assert running.wait(30) == 0, drawn
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", drawn.decode()).splitlines()]


def test_a_list_at_80_columns_keeps_tries_and_notes_and_drops_the_middle_of_ids(folder: Path, sloppyjobs: Run) -> None:
    sloppyjobs("enqueue", "send-a-long-letter", '{"to": "ada"}', "--delay", "1h", "--max-attempts", "5")
    [job] = json.loads(sloppyjobs("list", "--json"))["items"]
    headings, line = at_terminal(folder, "list")
    assert headings.split() == ["ID", "STATUS", "NAME", "QUEUE", "AGE", "TRIES", "NOTE"]
    assert len(line) <= 80
    assert re.match(rf"{shortened(job['id'])}  scheduled +send-a-long", line)
    assert re.search(r" 0/5 +due in \S+$", line)
    assert job["id"] in at_terminal(folder, "list", columns=130)[1]


def test_a_shortened_id_is_understood_wherever_an_id_is(sloppyjobs: Run) -> None:
    for _ in range(3):
        sloppyjobs("enqueue", "send-a-long-letter")
    ids = [job["id"] for job in json.loads(sloppyjobs("list", "--json"))["items"]]
    for id in ids:
        assert json.loads(sloppyjobs("show", shortened(id), "--json"))["id"] == id
    assert id in sloppyjobs("explain", shortened(id).replace("…", "..."))
    assert f"{id} is cancelled" in sloppyjobs("cancel", shortened(id))
    assert "no job has an id like" in sloppyjobs("show", "job_00000000…0000", code=1)


def test_parts_of_short_ids_are_those_of_the_ids_they_stand_for(sqlite_url: str) -> None:
    jobs = Jobs(sqlite_url)
    jobs.init()
    id = internals(jobs).ids.new("job")
    head, tail = parts_of_short(shortened(id)) or ("", "")
    assert id.startswith(head)
    assert id.endswith(tail)
    for wrong in (None, 7, b"job_x"):
        with pytest.raises(InvalidOption, match="id"):
            jobs.admin.whole_id(wrong)  # type: ignore[arg-type]
    assert jobs.admin.whole_id("job_x") == "job_x"
    for odd in ("…", "job_…", "job_01…2", "job_01kg9f9c…'; --", "%_01kg9f9…%%%%"):
        assert parts_of_short(odd) is None
    with pytest.raises(UnknownJob):
        jobs.admin.whole_id(shortened(id))


def test_enqueue_takes_json_a_file_or_standard_input(folder: Path, sloppyjobs: Run) -> None:
    (folder / "payload.json").write_text('{"to": "bob"}')
    sloppyjobs("enqueue", "send-a-long-letter", '{"to": "ada"}', "--priority", "3", "--queue", "fast")
    sloppyjobs("enqueue", "send-a-long-letter", "@payload.json", "--idempotency-key", "once")
    again = sloppyjobs("enqueue", "send-a-long-letter", "-", "--idempotency-key", "once", input="[1]")
    assert "it was enqueued before with this key" in again
    listed = json.loads(sloppyjobs("list", "--json", "--order", "created_at"))["items"]
    assert [(job["queue"], job["priority"]) for job in listed] == [("fast", 3), ("a-long-queue", 0)]
    shown = json.loads(sloppyjobs("show", listed[1]["id"], "--json"))
    assert json.loads(shown["payload_preview"]["text"]) == {"to": "bob"}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["gone", "{}"], 1, "no job is defined as 'gone'"),
        (["send-a-long-letter", "{to: ada}"], 2, "is not JSON"),
        (["send-a-long-letter", "@nowhere.json"], 2, "cannot read nowhere.json"),
        (["send-a-long-letter", "{}", "--delay", "1h", "--run-at", "2h"], 1, "delay and run_at exclude each other"),
    ],
)
def test_enqueue_refuses_what_cannot_work(sloppyjobs: Run, arguments: list[str], code: int, said: str) -> None:
    assert said in sloppyjobs("enqueue", *arguments, code=code)
    assert json.loads(sloppyjobs("list", "--json"))["items"] == []


def test_a_dry_run_shows_what_a_bulk_command_would_do_and_does_nothing(sloppyjobs: Run) -> None:
    for _ in range(3):
        sloppyjobs("enqueue", "send-a-long-letter", "--delay", "1h")
    printed = sloppyjobs("run-now", "--status", "scheduled", "--dry-run")
    assert printed.count("send-a-long-letter") == 3
    assert "would run-now 3 jobs; nothing was changed" in printed
    assert json.loads(sloppyjobs("run-now", "--status", "scheduled", "--dry-run", "--json"))["done"] == 3
    listed = json.loads(sloppyjobs("list", "--json"))["items"]
    assert {job["status"] for job in listed} == {"scheduled"}
    assert "--dry-run is for filters" in sloppyjobs("retry", "job_x", "--dry-run", code=2)


@pytest.mark.slow
def test_a_worker_that_reloads_runs_the_code_as_it_is_now(
    folder: Path, sloppyjobs: Run, eventually: Callable[..., Any]
) -> None:
    with (folder / "worker.log").open("wb") as log:
        worker = warm_start.Popen(
            command("worker", "--reload", "--no-recurring", "--no-maintenance"), cwd=folder, stderr=log
        )
    try:
        assert answer(folder) == "ANSWER"
        # Two ways to edit: a broken file first, which the next change mends.
        edit(folder, "def broken(")
        eventually(lambda: "SyntaxError" in (folder / "worker.log").read_text())
        edit(folder, APPLICATION.replace("ANSWER", "BETTER"))
        assert answer(folder) == "BETTER"
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    assert "letters.py has changed" in (folder / "worker.log").read_text()
    assert "has stopped" in (folder / "worker.log").read_text().splitlines()[-1]


def edit(folder: Path, text: str) -> None:
    """Write a file whose time of change differs from before, as an editor does."""
    file = folder / "letters.py"
    before = file.stat().st_mtime_ns
    while file.stat().st_mtime_ns == before:
        file.write_text(text)
        time.sleep(0.01)


def answer(folder: Path) -> str:
    (folder / "other").mkdir(exist_ok=True)
    (folder / "other" / "asks.py").write_text(APPLICATION.replace("jobs.db", str(folder / "jobs.db")))
    ask = "import asks; job = asks.send.enqueue(); print(asks.jobs.wait(job.id, 60).result)"
    asked = warm_start.run(
        [sys.executable, "-c", ask], cwd=folder / "other", capture_output=True, text=True, check=False
    )
    assert asked.returncode == 0, asked.stderr
    return asked.stdout.strip()
