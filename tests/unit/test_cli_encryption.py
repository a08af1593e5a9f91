"""Keys on the command line: a new one is printed, those in use never are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from sloppyjobs.cli import main
from sloppyjobs.cli.target import Target
from sloppyjobs.encryption import KEYS_VARIABLE, Keyring
from sloppyjobs.jobs import Jobs

OLD, NEW = Keyring.generate(), Keyring.generate()


def _run(*arguments: str, code: int = 0, jobs: Jobs | None = None, **environment: str) -> str:
    given = None if jobs is None else Target(given=jobs)
    result = CliRunner().invoke(main, list(arguments), obj=given, env=environment)
    assert result.exit_code == code, result.output + repr(result.exception)
    assert not any(key in result.output for key in (OLD, NEW))
    return result.output


def _document(jobs: Jobs, *arguments: str, code: int = 0) -> Any:
    return json.loads(_run(*arguments, "--json", code=code, jobs=jobs))


@pytest.fixture
def url(tmp_path: Any) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


def _jobs(url: str, *keys: str) -> Jobs:
    jobs = Jobs(url, encryption=Keyring(keys) if keys else None)
    jobs.init()
    jobs.define("greet", lambda ctx, payload: payload)
    return jobs


def test_a_key_is_made() -> None:
    made = _run("generate-key").strip()
    assert Keyring([made]).ids
    assert made != _run("generate-key").strip()


def test_rekey_encrypts_with_the_first_key(url: str) -> None:
    old = _jobs(url, OLD)
    old.enqueue_many([("greet", number) for number in range(25)])
    both = _jobs(url, NEW, OLD)
    assert _document(both, "status")["encryption"]["outdated"] == 25
    assert "25 texts" in _run("doctor", jobs=both, code=1), "nobody works on the queue"
    done = _document(both, "rekey", "--batch", "10")
    assert done == {"examined": 25, "rewritten": 25, "changed": 0, "unreadable": 0}
    assert _document(both, "rekey")["rewritten"] == 0
    assert _document(_jobs(url, NEW), "status")["encryption"]["missing"] == []
    assert "rows examined: 25, encrypted with the first key: 0" in _run("rekey", jobs=_jobs(url, NEW))


def test_a_missing_key_is_told(url: str) -> None:
    _jobs(url, OLD).enqueue("greet", 1)
    new, [id] = _jobs(url, NEW), Keyring([OLD]).ids
    assert _document(new, "rekey", code=1)["unreadable"] == 1
    [check] = [one for one in _document(new, "doctor", code=1)["checks"] if one["check"] == "encryption"]
    assert (check["status"], id in check["detail"]) == ("FAIL", True)
    assert id in _run("status", jobs=new)


def test_the_environment_has_the_keys(url: str) -> None:
    job = _jobs(url, OLD).enqueue("greet", {"name": "Ada"})
    for keys, shown in ((OLD, "Ada"), (f"{NEW},{OLD}", "Ada"), (NEW, "is not here"), ("", "is not here")):
        assert shown in _run("--database", url, "show", job.id, **{KEYS_VARIABLE: keys})
    bad = _run("--database", url, "show", job.id, code=1, **{KEYS_VARIABLE: f"{OLD},secret-text"})
    assert "keys[1]" in bad
    assert "secret-text" not in bad
    assert "no keys here" in _run("--database", url, "rekey", code=1, **{KEYS_VARIABLE: ""})
