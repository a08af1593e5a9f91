"""The standalone application: the blueprint at the root, configured by ``SLOPPYJOBS_*`` variables."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from flask import Flask
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError
from werkzeug.middleware.proxy_fix import ProxyFix

from sloppyjobs import InvalidOption, Jobs
from webui.blueprint import build
from webui.locating import locate
from webui.policy import AllowAll, BasicAuthPolicy, Policy, TokenPolicy
from webui.ui import JobsLike, Ui

log = logging.getLogger(__name__)

DEFAULT_URL = "sqlite:///sloppyjobs.db"
LOOPBACK = ["localhost", "127.0.0.1", "[::1]"]
SECRET_FILE = ".secret_key"  # noqa: S105 - a file's name


class NotConfigured(RuntimeError):
    """The application refuses to start. The text says what to set."""


def create_app(environ: Mapping[str, str] | None = None, jobs: JobsLike | None = None) -> Flask:
    """The UI as an application of its own. Raises ``NotConfigured`` where credentials or the jobs are missing."""
    settings = os.environ if environ is None else environ
    policy = _policy(settings)
    app = Flask("webui", static_folder=None, template_folder=None)
    app.secret_key = _secret_key(settings)
    app.config.update(
        SESSION_COOKIE_NAME="sloppyjobs_session",
        SESSION_COOKIE_SAMESITE="Lax",
        MAX_CONTENT_LENGTH=1 << 20,
        TRUSTED_HOSTS=_hosts(settings),
        SLOPPYJOBS_WEBUI_READ_ONLY=_is_set(settings, "READ_ONLY"),
    )
    token = settings.get("SLOPPYJOBS_WEBUI_TOKEN")
    api_policy = TokenPolicy(token) if token else None
    ui = Ui(jobs or _jobs(settings), policy, api_policy, "sloppyjobs", read_only=False)
    app.register_blueprint(build(ui, owns_root=True))
    proxies = settings.get("SLOPPYJOBS_WEBUI_PROXIES", "0")
    if not proxies.isdigit():
        raise NotConfigured(f"SLOPPYJOBS_WEBUI_PROXIES={proxies!r} must be the number of proxies in front")
    if int(proxies):
        count = int(proxies)
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=count, x_proto=count, x_host=count)  # type: ignore[method-assign]
    return app


def _policy(settings: Mapping[str, str]) -> Policy:
    username = settings.get("SLOPPYJOBS_WEBUI_USERNAME", "")
    password = settings.get("SLOPPYJOBS_WEBUI_PASSWORD", "")
    if username and password:
        return BasicAuthPolicy(username, password)
    if _is_set(settings, "INSECURE"):
        log.warning("SLOPPYJOBS_WEBUI_INSECURE=1: no authentication; only loopback host names are answered")
        return AllowAll()
    raise NotConfigured(
        "set SLOPPYJOBS_WEBUI_USERNAME and SLOPPYJOBS_WEBUI_PASSWORD; "
        "or, on a machine of your own, SLOPPYJOBS_WEBUI_INSECURE=1 for no authentication at all"
    )


def _hosts(settings: Mapping[str, str]) -> list[str] | None:
    given = [host.strip() for host in settings.get("SLOPPYJOBS_WEBUI_HOSTS", "").split(",") if host.strip()]
    if given:
        return given
    # Without authentication the host's name is checked, so that no web page can reach it by a name of its own.
    return LOOPBACK if _is_set(settings, "INSECURE") else None


def _is_set(settings: Mapping[str, str], name: str) -> bool:
    return settings.get(f"SLOPPYJOBS_WEBUI_{name}", "").strip().lower() in ("1", "true", "yes", "on")


def _jobs(settings: Mapping[str, str]) -> JobsLike:
    url, target = settings.get("SLOPPYJOBS_DATABASE_URL"), settings.get("SLOPPYJOBS_APP")
    if target is None:
        return Jobs(url or DEFAULT_URL)
    try:
        found = locate(target)
    except InvalidOption as error:
        raise NotConfigured(str(error)) from error
    if url is None:
        return found
    jobs = Jobs(url)
    jobs.definitions = found.definitions
    return jobs


def _secret_key(settings: Mapping[str, str]) -> str:
    given = settings.get("SECRET_KEY")
    if given:
        return given
    file = _beside_the_database(settings.get("SLOPPYJOBS_DATABASE_URL") or DEFAULT_URL) / SECRET_FILE
    try:
        if not file.exists():
            _keep_secret(file)
        return file.read_text().strip()
    except OSError:
        log.warning("no SECRET_KEY, and none can be kept in %s: forms expire at every restart", file.parent)
        return secrets.token_hex(32)


def _keep_secret(file: Path) -> None:
    """Write a new key for this user alone. Whole or not at all: several server processes start at once."""
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as made:
        made.write(secrets.token_hex(32))
    try:
        os.link(draft, file)
        log.info("made a SECRET_KEY and kept it in %s", file)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def _beside_the_database(url: str) -> Path:
    """The folder of a SQLite file; the working directory for a server."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        return Path()
    if parsed.get_backend_name() == "sqlite" and parsed.database and parsed.database != ":memory:":
        return Path(parsed.database).parent
    return Path()
