"""No name, id or error text can write a line of its own into a log or onto a terminal."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from sloppyjobs import Jobs
from sloppyjobs.cli import main
from sloppyjobs.domain.log_lines import get_logger

FORGED = "w\n2026-01-01 ERROR forged\r\x1b[2J\x9b31m\u2028\u202e"
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]")


def test_the_names_of_a_worker_and_its_queues_stay_on_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    jobs = Jobs(f"sqlite:///{tmp_path / 'jobs.db'}")
    jobs.storage.init()
    jobs.define("a", queue=FORGED)(lambda ctx, payload: None)
    worker = jobs.create_worker(id=FORGED, queues=(FORGED,))
    worker.start()
    worker.stop()
    jobs.storage.close()
    said = [record.getMessage() for record in caplog.records if record.name.startswith("sloppyjobs")]
    assert any("works on" in message for message in said)
    for message in said:
        assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u202e]", message), message


def test_arguments_are_made_plain_and_numbers_stay_numbers(caplog: pytest.LogCaptureFixture) -> None:
    log = get_logger("sloppyjobs.tests.lines")

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    log.warning("%s %d %.1f %r", "a\nb", 3, 0.5, {"a": 1})
    log.warning("%(who)s", {"who": "a\nb"})
    log.warning("%s", ValueError("a\nb"))
    log.warning("%s", Unspeakable())
    assert caplog.messages == [r"a\nb 3 0.5 {'a': 1}", r"a\nb", r"a\nb", "<Unspeakable without words>"]


@pytest.fixture
def hostile(ready_sqlite_url: str) -> str:
    jobs = Jobs(ready_sqlite_url)
    jobs.declare(f"name-{FORGED}", queue=f"queue-{FORGED}")
    jobs.enqueue(f"name-{FORGED}", {"of": FORGED}, correlation_id=f"key-{FORGED}")
    jobs.admin.pause_queue(f"queue-{FORGED}", actor=FORGED, reason=FORGED)
    jobs.storage.close()
    return ready_sqlite_url


@pytest.mark.parametrize(
    "command",
    [
        ["list", "--json"],
        ["list", "--all-pages", "--json"],
        ["queues", "--json"],
        ["status", "--json"],
        ["list"],
        ["queues"],
    ],
    ids=" ".join,
)
def test_the_command_line_prints_no_raw_control_characters(hostile: str, command: list[str]) -> None:
    done = CliRunner().invoke(main, ["--database", hostile, *command])
    assert done.exit_code == 0, done.output
    assert not RAW.search(done.stdout)
    if "--json" in command:
        text = json.dumps(json.loads(done.stdout), ensure_ascii=False)
        assert "forged" in text
        assert "\x9b" in text, "as JSON it is all there"


def test_a_refusal_prints_no_raw_control_characters(hostile: str) -> None:
    for command in (
        ["show", FORGED],
        ["queues", "resume", f"no-{FORGED}"],
        ["list", "--queue", FORGED, "--status", "x"],
    ):
        done = CliRunner().invoke(main, ["--database", hostile, *command])
        assert done.exit_code != 0, command
        assert not RAW.search(done.output), command
        assert "\n2026-01-01 ERROR" not in done.output, command


def test_every_refusal_is_harmless(hostile: str) -> None:
    from sloppyjobs.cli.root import refusal
    from sloppyjobs.errors import JobsError

    assert "\n" not in refusal(JobsError("a\nb\x9b"))
