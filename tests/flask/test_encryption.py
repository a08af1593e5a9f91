"""Keys of an application's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask import Flask

from sloppyjobs import InvalidOption, Keyring
from sloppyjobs.encryption import KEYS_VARIABLE
from sloppyjobs.flask import SloppyJobs
from sloppyjobs.testing import drain

KEY = Keyring.generate()


def _app(jobs: SloppyJobs, path: Path, **config: str) -> Flask:
    app = Flask("shop")
    app.config.update(SLOPPYJOBS_DATABASE_URL=f"sqlite:///{path}", **config)
    jobs.init_app(app)
    return app


@pytest.mark.parametrize("where", ["configuration", "environment", "keyring"])
def test_jobs_of_an_application_are_encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    if where == "environment":
        monkeypatch.setenv(KEYS_VARIABLE, KEY)
    jobs = SloppyJobs(encryption=Keyring([KEY]) if where == "keyring" else None)
    app = _app(jobs, tmp_path / "jobs.db", **({KEYS_VARIABLE: KEY} if where == "configuration" else {}))
    define = jobs.define("greet")
    greet = define(lambda ctx, payload: payload)
    with app.app_context():
        jobs.init()
        jobs.recurring("often", "greet", {"name": "canary-12"}, every=3600)
        job = greet.enqueue({"name": "canary-12"})
        jobs.open_batch("import", on_complete=("greet", {"name": "canary-12"})).seal()
        assert drain(jobs.bound()) == 2
        assert jobs.get(job.id).result == {"name": "canary-12"}
        assert jobs.admin.get_job(job.id).payload_preview.value == {"name": "canary-12"}
        assert jobs.admin.get_recurring("often").payload_preview.value == {"name": "canary-12"}
        jobs.storage.close()
    assert b"canary-12" not in b"".join(one.read_bytes() for one in tmp_path.iterdir())


def test_a_bad_key_is_refused_when_the_application_is_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"SLOPPYJOBS_ENCRYPTION_KEYS: keys\[0\]") as refused:
        _app(SloppyJobs(), tmp_path / "jobs.db", SLOPPYJOBS_ENCRYPTION_KEYS="hunter2")
    assert "hunter2" not in str(refused.value)
