"""The standalone application: the blueprint at the root, configured by ``SLOPPYJOBS_*`` variables."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from flask import Flask, request
from flask.sessions import SecureCookieSessionInterface
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError
from werkzeug.middleware.proxy_fix import ProxyFix

from sloppyjobs import DriverMissing, InvalidOption, Jobs, Keyring
from sloppyjobs.encryption import KEYS_VARIABLE, keyring_from
from webui import failures, secret_key, security
from webui.application_path import locate
from webui.blueprint import build
from webui.installation import Installation
from webui.loopback import LoopbackOnly
from webui.policy import AllowAll, BasicAuthPolicy, Policy, TokenPolicy
from webui.ui import JobsLike, Ui

log = logging.getLogger(__name__)

DEFAULT_URL = "sqlite:///sloppyjobs.db"


class NotConfigured(RuntimeError):
    """The application refuses to start. The text says what to set."""


class _SecureOverTls(SecureCookieSessionInterface):
    """Marks the session's cookie ``Secure`` where the request came over https, as the configured proxies say."""

    def get_cookie_secure(self, app: Flask) -> bool:
        """For this response."""
        return request.is_secure or super().get_cookie_secure(app)


def create_app(environ: Mapping[str, str] | None = None, jobs: JobsLike | None = None) -> Flask:
    """The UI as an application of its own. Raises ``NotConfigured`` where credentials or the jobs are missing."""
    settings = os.environ if environ is None else environ
    policy, proxies, hosts = _policy(settings), _proxies(settings), _hosts(settings)
    insecure = isinstance(policy, AllowAll)
    app = Flask("webui", static_folder=None, template_folder=None)
    app.session_interface = _SecureOverTls()
    app.secret_key = _secret_key(settings)
    app.config.update(
        SESSION_COOKIE_NAME="sloppyjobs_session",
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_COOKIE_HTTPONLY=True,
        MAX_CONTENT_LENGTH=1 << 20,
        TRUSTED_HOSTS=None if insecure else hosts,
        SLOPPYJOBS_WEBUI_READ_ONLY=_is_set(settings, "READ_ONLY"),
    )
    token = settings.get("SLOPPYJOBS_WEBUI_TOKEN")
    api_policy = TokenPolicy(token) if token else None
    ui = Ui(
        jobs or _jobs(settings), policy, api_policy, "sloppyjobs", read_only=False,
        signs_out=isinstance(policy, BasicAuthPolicy),
        installation=Installation.named(
            settings.get("SLOPPYJOBS_WEBUI_TITLE", ""), settings.get("SLOPPYJOBS_WEBUI_ENVIRONMENT", "")
        ),
    )  # fmt: skip
    app.register_blueprint(build(ui, owns_root=True))
    failures.register_alone(app)
    app.after_request(security.protect)
    if proxies:
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=proxies, x_proto=proxies, x_host=proxies)  # type: ignore[method-assign]
    if insecure:
        app.wsgi_app = LoopbackOnly(app.wsgi_app, hosts or ())  # type: ignore[method-assign]
    return app


def _proxies(settings: Mapping[str, str]) -> int:
    given = settings.get("SLOPPYJOBS_WEBUI_PROXIES", "0")
    if not (given.isascii() and given.isdigit()):
        raise NotConfigured(f"SLOPPYJOBS_WEBUI_PROXIES={given!r} must be the number of proxies in front")
    return int(given)


def _policy(settings: Mapping[str, str]) -> Policy:
    username = settings.get("SLOPPYJOBS_WEBUI_USERNAME", "")
    password = settings.get("SLOPPYJOBS_WEBUI_PASSWORD", "")
    if username and password:
        return BasicAuthPolicy(username, password)
    if _is_set(settings, "INSECURE"):
        if _proxies(settings):
            raise NotConfigured(
                "SLOPPYJOBS_WEBUI_INSECURE=1 is for this machine only, and through a proxy anybody may come: "
                "set SLOPPYJOBS_WEBUI_USERNAME and SLOPPYJOBS_WEBUI_PASSWORD, or leave out SLOPPYJOBS_WEBUI_PROXIES"
            )
        log.warning("SLOPPYJOBS_WEBUI_INSECURE=1: no authentication; only requests from this machine are answered")
        return AllowAll()
    raise NotConfigured(
        "set SLOPPYJOBS_WEBUI_USERNAME and SLOPPYJOBS_WEBUI_PASSWORD; "
        "or, on a machine of your own, SLOPPYJOBS_WEBUI_INSECURE=1 for no authentication at all"
    )


def _hosts(settings: Mapping[str, str]) -> list[str] | None:
    return [host.strip() for host in settings.get("SLOPPYJOBS_WEBUI_HOSTS", "").split(",") if host.strip()] or None


def _is_set(settings: Mapping[str, str], name: str) -> bool:
    return settings.get(f"SLOPPYJOBS_WEBUI_{name}", "").strip().lower() in ("1", "true", "yes", "on")


def _jobs(settings: Mapping[str, str]) -> JobsLike:
    url, target = settings.get("SLOPPYJOBS_DATABASE_URL"), settings.get("SLOPPYJOBS_APP")
    if target is None:
        return Jobs(url or DEFAULT_URL, encryption=_keyring(settings))
    try:
        found = locate(target)
    except InvalidOption as error:
        raise NotConfigured(str(error)) from error
    if url is None:
        return found
    jobs = Jobs(url, encryption=_keyring(settings))
    jobs.definitions = found.definitions
    return jobs


def _keyring(settings: Mapping[str, str]) -> Keyring | None:
    try:
        return keyring_from(settings.get(KEYS_VARIABLE))
    except (InvalidOption, DriverMissing) as error:
        raise NotConfigured(str(error)) from error


def _secret_key(settings: Mapping[str, str]) -> str:
    given = settings.get("SECRET_KEY")
    if given:
        return given
    try:
        return secret_key.stored_in(_beside_the_database(settings.get("SLOPPYJOBS_DATABASE_URL") or DEFAULT_URL))
    except secret_key.UnsafeKey as error:
        raise NotConfigured(str(error)) from error


def _beside_the_database(url: str) -> Path:
    """The folder of a SQLite file; the working directory for a server."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        return Path()
    if parsed.get_backend_name() == "sqlite" and parsed.database and parsed.database != ":memory:":
        return Path(parsed.database).parent
    return Path()
