"""No command prints a password of the database, wherever it stands in the URL, and none prints a job's secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from redaction_cases import HIDDEN_TEXTS
from sqlalchemy import make_url

from sloppyjobs import InvalidOption, Jobs, Retry, storage
from sloppyjobs.cli import main
from sloppyjobs.cli.target import Target
from sloppyjobs.storage.shown_urls import shown, without_secrets

SECRET = "hunter2-cAnArY"
COMMANDS = ("init", "status", "list", "doctor", "doctor --json", "sql", "tick", "dead", "workers", "queues", "audit")
UNREADABLE = (
    f"postgresql//bob:{SECRET}@db/x",
    f"postgresql://bob@db:{SECRET}/x",
    f"postgresql://bob:a/b:{SECRET}@[::1/x",
    f"host=db password={SECRET}",
    SECRET,
)
UNREACHABLE = (
    f"postgresql://bob@127.0.0.1:1/x?password={SECRET}",
    f"postgresql://bob@127.0.0.1:1/x?application_name=a&sslpassword={SECRET}",
    f"postgresql://bob:{SECRET}@127.0.0.1:1/x?connect_timeout=1",
    f"postgresql://bob@127.0.0.1:1/x?no_such_option=1&password={SECRET}",
)


def said_by(url: str, command: str) -> str:
    result = CliRunner().invoke(main, ["--database", url, *command.split()])
    return result.output + repr(result.exception)


@pytest.mark.parametrize("url", UNREADABLE)
def test_a_url_that_cannot_be_read_is_not_repeated(url: str) -> None:
    for command in COMMANDS:
        said = said_by(url, command)
        assert SECRET not in said, command
        plain = " ".join(said.replace("│", " ").split())
        assert "is not a database URL" in plain or "the database URL cannot be read" in plain, command
    with pytest.raises(InvalidOption) as refused:
        Jobs(url)
    assert SECRET not in str(refused.value) and refused.value.__cause__ is None
    assert refused.value.__suppress_context__


@pytest.mark.parametrize("url", UNREACHABLE)
def test_a_database_that_cannot_be_reached_is_named_without_its_password(url: str) -> None:
    for command in COMMANDS:
        assert SECRET not in said_by(url, command), command
    jobs = Jobs(url)
    assert SECRET not in f"{jobs!r} {jobs} {jobs.storage!r} {jobs.storage}"


def test_a_password_in_the_query_is_not_printed_by_commands_that_work(empty_postgres_url: str) -> None:
    url = make_url(empty_postgres_url).update_query_dict({"password": SECRET}).render_as_string(hide_password=False)
    assert SECRET not in said_by(url, "list")
    assert "password=***" in said_by(url, "init")
    for command in COMMANDS:
        assert SECRET not in said_by(url, command), command


def test_a_url_is_shown_with_everything_but_its_secrets() -> None:
    url = make_url(f"postgresql://bob:{SECRET}@db:5432/x?sslmode=require&password={SECRET}&sslpassword=a")
    assert shown(url) == "postgresql://bob:***@db:5432/x?password=***&sslmode=require&sslpassword=***"
    assert without_secrets(f'authentication failed: "{SECRET}"', url) == 'authentication failed: "***"'


def test_a_url_with_several_hosts_is_shown_as_it_can_be_given() -> None:
    url = make_url(f"postgresql+psycopg://bob:{SECRET}@/x?host=db1:5432&host=db2:5433&target_session_attrs=read-write")
    assert make_url(shown(url)).query == url.query
    assert SECRET not in shown(url)


@pytest.fixture
def leaky(tmp_path: Path) -> Jobs:
    """A dead job for each text of the table that holds a secret, in everything that it carries."""
    kept = storage.sqlite(f"sqlite:///{tmp_path}/jobs.db")
    kept.init()
    jobs = Jobs(kept)

    @jobs.define("leak", retry=Retry(max_attempts=1))
    def leak(ctx, payload):  # type: ignore[no-untyped-def]
        ctx.log("error", payload["text"], password=SECRET)
        ctx.progress(50, payload["text"][:200])
        raise RuntimeError(payload["text"])

    for text in HIDDEN_TEXTS[::7]:
        jobs.enqueue("leak", {"text": text.replace("§", SECRET), "password": SECRET})
    worker = jobs.create_worker(recurring=False)
    while worker.run_once():
        pass
    return jobs


def test_no_command_prints_the_secrets_of_jobs(leaky: Jobs) -> None:
    ids = [job.id for job in leaky.admin.list_jobs(page_size=200)]
    commands = ["list", "list --json", "dead", "dead --json", "status", "status --json", "audit"]
    commands += [f"{verb} {id}{form}" for verb in ("show", "explain") for id in ids for form in ("", " --json")]
    for command in commands:
        result = CliRunner().invoke(main, command.split(), obj=Target(given=leaky))
        assert result.exit_code == 0, result.output
        assert SECRET not in result.output, command
    leaky.storage.close()
