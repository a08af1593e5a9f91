"""The application of its own, its configuration, and the pages for when something is missing."""

from __future__ import annotations

import importlib
import json
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts import Client, make_app

import webui
from sloppyjobs import Jobs
from webui.standalone import NotConfigured


def _environ(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"SLOPPYJOBS_DATABASE_URL": f"sqlite:///{tmp_path / 'jobs.db'}", **more}


def _credentials() -> dict[str, str]:
    return {"SLOPPYJOBS_WEBUI_USERNAME": "ops", "SLOPPYJOBS_WEBUI_PASSWORD": "s3cret"}


def test_importing_does_nothing() -> None:
    code = (
        "import sys, threading; import webui, logging;"
        "assert 'app' not in vars(webui); assert threading.active_count() == 1; print('quiet')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PATH": ""})
    assert done.stdout == "quiet\n"
    assert done.stderr == ""


def test_it_refuses_to_start_without_credentials(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match="SLOPPYJOBS_WEBUI_PASSWORD"):
        webui.create_app(_environ(tmp_path))
    with pytest.raises(NotConfigured):
        webui.create_app(_environ(tmp_path, SLOPPYJOBS_WEBUI_USERNAME="ops"))


def test_the_lazy_app_is_made_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in _environ(tmp_path, **_credentials()).items():
        monkeypatch.setenv(name, value)
    try:
        assert webui.app is webui.app
        assert webui.app.test_client().get("/healthz").status_code == 200
    finally:
        vars(webui).pop("app", None)
    with pytest.raises(AttributeError):
        _ = webui.nothing  # type: ignore[attr-defined]


def test_credentials_open_the_pages_and_the_token_the_api(tmp_path: Path) -> None:
    Jobs(f"sqlite:///{tmp_path / 'jobs.db'}").storage.init()
    app = webui.create_app(_environ(tmp_path, **_credentials(), SLOPPYJOBS_WEBUI_TOKEN="t"))
    client = app.test_client()
    assert client.get("/").status_code == 401
    assert client.get("/", auth=("ops", "s3cret")).status_code == 200
    assert client.get("/nope", auth=("ops", "s3cret")).status_code == 404
    assert client.get("/api/v1/jobs", auth=("ops", "s3cret")).status_code == 401
    assert client.get("/api/v1/jobs", headers={"Authorization": "Bearer t"}).status_code == 200


def test_without_a_token_the_api_is_closed(tmp_path: Path) -> None:
    app = webui.create_app(_environ(tmp_path, **_credentials()))
    assert app.test_client().get("/api/v1/jobs", headers={"Authorization": "Bearer "}).status_code == 403


def test_insecure_is_for_loopback_names_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Jobs(f"sqlite:///{tmp_path / 'jobs.db'}").storage.init()
    app = webui.create_app(_environ(tmp_path, SLOPPYJOBS_WEBUI_INSECURE="1"))
    assert "NO AUTHENTICATION" in caplog.text
    client = app.test_client()
    assert client.get("/", headers={"Host": "127.0.0.1:8000"}).status_code == 200
    assert client.get("/", headers={"Host": "rebound.example"}).status_code == 400


def test_only_trusted_hosts_are_answered(tmp_path: Path) -> None:
    app = webui.create_app(_environ(tmp_path, **_credentials(), SLOPPYJOBS_WEBUI_HOSTS="jobs.example, .inside"))
    client = app.test_client()
    assert client.get("/healthz", headers={"Host": "jobs.example"}).status_code == 200
    assert client.get("/healthz", headers={"Host": "a.inside"}).status_code == 200
    assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 400


def test_read_only_by_the_environment(tmp_path: Path) -> None:
    app = webui.create_app(_environ(tmp_path, **_credentials(), SLOPPYJOBS_WEBUI_READ_ONLY="1"))
    assert app.test_client().post("/queues/x/pause", auth=("ops", "s3cret")).status_code == 403


def test_a_secret_key_is_made_once_and_kept_for_this_user_alone(tmp_path: Path) -> None:
    first = webui.create_app(_environ(tmp_path, **_credentials())).secret_key
    second = webui.create_app(_environ(tmp_path, **_credentials())).secret_key
    assert first == second
    file = tmp_path / ".secret_key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.glob(".secret_key.*")) == []
    assert webui.create_app(_environ(tmp_path, **_credentials(), SECRET_KEY="given")).secret_key == "given"


def test_definitions_of_an_application_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs.py").write_text(
        "from sloppyjobs import Jobs\n"
        f"jobs = Jobs('sqlite:///{tmp_path / 'jobs.db'}')\n"
        "jobs.storage.init()\n"
        "jobs.declare('pay', redact=('iban_of_mine',))\n"
        "job = jobs.enqueue('pay', {'iban_of_mine': 'DE-canary'})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    app = webui.create_app(_environ(tmp_path, **_credentials(), SLOPPYJOBS_APP="theirs:jobs"))
    import theirs  # type: ignore[import-not-found]

    text = app.test_client().get(f"/jobs/{theirs.job.id}", auth=("ops", "s3cret")).text
    assert "DE-canary" not in text
    assert "redacted" in text
    with pytest.raises(NotConfigured, match="module:attribute"):
        webui.create_app(_environ(tmp_path, **_credentials(), SLOPPYJOBS_APP="theirs"))
    with pytest.raises(NotConfigured, match="not a Jobs"):
        webui.create_app(_environ(tmp_path, **_credentials(), SLOPPYJOBS_APP="theirs:job"))


THEIR_SHOP = """
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sloppyjobs import Jobs
from sloppyjobs.flask import SloppyJobs

url = {url!r}
db, extension, unbound = SQLAlchemy(), SloppyJobs(), SloppyJobs()
extension.declare("pay", redact=("iban_of_mine",))
bare, number = Flask("bare"), 5


def create_app():
    app = Flask("shop")
    app.config["SQLALCHEMY_DATABASE_URI"] = url
    db.init_app(app)
    extension.init_app(app, db)
    return app


def create_plain():
    jobs = Jobs(url)
    jobs.declare("pay", redact=("iban_of_mine",))
    return jobs


def needs(argument):
    return Flask("never")
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An application's module, and the id of a job with a secret in its database."""
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    (tmp_path / "their_shop.py").write_text(THEIR_SHOP.replace("{url!r}", repr(url)))
    monkeypatch.syspath_prepend(tmp_path)
    jobs = Jobs(url)
    jobs.storage.init()
    jobs.declare("pay")
    yield jobs.enqueue("pay", {"iban_of_mine": "DE-canary"}).id
    jobs.storage.close()
    sys.modules.pop("their_shop", None)


@pytest.mark.parametrize("target", ["their_shop:create_app", "their_shop:create_plain", "their_shop:extension"])
def test_a_factory_an_application_and_an_extension_name_their_jobs(shop: str, target: str) -> None:
    if target.endswith("extension"):
        importlib.import_module("their_shop").create_app()
    app = webui.create_app({**_credentials(), "SLOPPYJOBS_APP": target, "SECRET_KEY": "kept"})
    text = app.test_client().get(f"/jobs/{shop}", auth=("ops", "s3cret")).text
    assert "pay" in text
    assert "DE-canary" not in text


def test_schedules_are_made_changed_and_triggered_as_the_application_defines_their_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    (tmp_path / "theirs_elsewhere.py").write_text(
        "from sloppyjobs import Jobs, Retry\n"
        f"jobs = Jobs('sqlite:///{tmp_path / 'unused.db'}')\n"
        "jobs.declare('pay', queue='billing', retry=Retry(max_attempts=7))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    jobs = Jobs(url)
    jobs.init()
    environ = {**_credentials(), "SECRET_KEY": "kept", "SLOPPYJOBS_WEBUI_TOKEN": "token"}
    named = {"SLOPPYJOBS_DATABASE_URL": url, "SLOPPYJOBS_APP": "theirs_elsewhere:jobs"}
    client, bearer = webui.create_app({**environ, **named}).test_client(), {"Authorization": "Bearer token"}
    asked = {"name": "hourly", "job_name": "pay", "every": 3600}
    assert client.post("/api/v1/recurring", json=asked, headers=bearer).status_code == 200
    changed = client.patch("/api/v1/recurring/hourly", json={"every": 60}, headers=bearer)
    assert (changed.status_code, changed.get_json()["every"]) == (200, 60.0)
    assert client.post("/api/v1/recurring/hourly/trigger", json={}, headers=bearer).status_code == 200
    [job] = jobs.admin.list_jobs()
    assert (job.queue, job.max_attempts) == ("billing", 7)

    unknowing = webui.create_app({**environ, "SLOPPYJOBS_DATABASE_URL": url}).test_client()
    refused = unknowing.patch("/api/v1/recurring/hourly", json={"every": 5}, headers=bearer)
    assert refused.status_code == 400
    assert "SLOPPYJOBS_APP" in refused.get_json()["error"]["message"]
    missing = unknowing.patch("/api/v1/recurring/nowhere", json={"every": 5}, headers=bearer)
    assert missing.status_code == 404
    jobs.storage.close()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("their_shop", "module:attribute"),
        ("their_shop:", "module:attribute"),
        ("nowhere_at_all:jobs", "no module 'nowhere_at_all'"),
        ("their_shop:jobs_of_nobody", "their_shop has no 'jobs_of_nobody'"),
        ("their_shop:number", "a int is not a Jobs"),
        ("their_shop:bare", "the application 'bare' has no jobs"),
        ("their_shop:unbound", "not bound to an application"),
        ("their_shop:needs", "without arguments"),
    ],
)
def test_what_names_no_jobs_is_refused_in_words(tmp_path: Path, shop: str, target: str, words: str) -> None:
    environ = _environ(tmp_path, **_credentials(), SLOPPYJOBS_APP=target)
    with pytest.raises(NotConfigured, match=re.escape(words)) as refused:
        webui.create_app(environ)
    assert target in str(refused.value)


def test_proxies_are_believed_only_when_told(tmp_path: Path) -> None:
    headers = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "jobs.example"}
    believed = webui.create_app(_environ(tmp_path, **_credentials(), SLOPPYJOBS_WEBUI_PROXIES="1"))
    ignored = webui.create_app(_environ(tmp_path, **_credentials()))
    for app, expected in ((believed, "https://jobs.example/"), (ignored, "http://localhost/")):
        seen: list[str] = []
        app.after_request(_remember(seen))
        app.test_client().get("/healthz", headers=headers)
        assert seen == [expected]
    with pytest.raises(NotConfigured, match="PROXIES"):
        webui.create_app(_environ(tmp_path, **_credentials(), SLOPPYJOBS_WEBUI_PROXIES="yes"))


def _remember(seen: list[str]) -> Any:
    from flask import request

    def after(response: Any) -> Any:
        seen.append(request.host_url)
        return response

    return after


def test_missing_tables_are_a_page_with_the_command(tmp_path: Path) -> None:
    client = Client(make_app(Jobs(f"sqlite:///{tmp_path / 'empty.db'}")).test_client())
    response = client.get("/")
    assert response.status_code == 503
    assert "The tables are missing" in response.text
    assert " init" in response.text


def test_a_database_that_is_down_is_a_page_that_tries_again(tmp_path: Path) -> None:
    client = Client(make_app(Jobs(f"sqlite:///{tmp_path / 'no' / 'folder' / 'x.db'}")).test_client())
    response = client.get("/queues")
    assert response.status_code == 503
    assert "does not answer" in response.text
    assert "Try now" in response.text
    assert "sqlite" not in response.text.lower()


def test_a_read_that_takes_too_long_is_a_banner_over_usable_filters(postgres_url: str) -> None:
    jobs = Jobs(postgres_url)
    jobs.declare("send-email", queue="emails")
    jobs.enqueue("send-email", {})
    client = Client(make_app(jobs).test_client())
    assert client.get("/jobs?queue=emails").status_code == 200
    with jobs.storage.engine.connect() as other:
        # Whoever reads the jobs waits for this lock, longer than a page may take.
        other.exec_driver_sql(f"LOCK TABLE {jobs.storage.tables.jobs.name} IN ACCESS EXCLUSIVE MODE")
        stopped, elsewhere = client.get("/jobs?queue=emails&status=dead"), client.get("/queues")
        api = client.get("/api/v1/jobs", headers={"Authorization": "Bearer t0k3n"})
        untouched = client.get("/locks")
        other.rollback()
    assert (stopped.status_code, elsewhere.status_code, untouched.status_code) == (503, 503, 200)
    assert "The query took too long and was stopped" in stopped.text
    assert 'name="queue" value="emails"' in stopped.text
    assert 'aria-current="page">Dead' in stopped.text
    assert "That took too long" in elsewhere.text
    assert (api.status_code, api.json["error"]["code"]) == (503, "SLOPPY_E_JOBS_READ_TIMEOUT")
    for response in (stopped, elsewhere, api):
        assert "SELECT" not in response.text
        assert "sloppy_jobs" not in response.text
    assert "send-email" in client.get("/jobs?queue=emails").text
    jobs.storage.close()


def test_the_wheel_carries_templates_and_scripts() -> None:
    root = Path(__file__).parents[2]
    assert json.loads((root / "package.json").read_text())["dependencies"] == {"htmx.org": "4.0.0"}
    assert "resolved" not in (root / "package-lock.json").read_text()
    settings = (root / "pyproject.toml").read_text()
    assert '"templates" = "webui/templates"' in settings
    assert '"static" = "webui/static"' in settings
