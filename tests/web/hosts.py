"""Hosts that mount the UI, and clients of every role."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from flask import Flask, Response, request
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

import webui

PREFIX = "/admin/jobs"
TOKEN = re.compile(r'name="csrf_token" value="([^"]+)"')


class RolePolicy:
    """Who is asking stands in a header; roles are sets of actions."""

    roles: ClassVar[dict[str, Callable[[str], bool]]] = {
        "admin": lambda action: True,
        "viewer": lambda action: action.endswith(".view"),
        "retrier": lambda action: action.endswith(".view") or action == "job.retry",
        "nobody": lambda action: False,
        "emails": lambda action: action not in ("audit.view", "worker.view", "lock.view"),
    }

    def actor(self) -> Any:
        return request.headers.get("X-Role")

    def can(self, actor: Any, action: str, resource: webui.Resource) -> bool:
        return self.roles[actor](action)

    def scope(self, actor: Any) -> Any:
        return ("emails",) if actor == "emails" else None

    def on_unauthenticated(self) -> Any:
        return Response("log in", 302, {"Location": "/login"})


class Client:
    """A test client of one role that fetches a token before it posts."""

    def __init__(self, client: FlaskClient, role: str | None = "admin", prefix: str = PREFIX) -> None:
        self.client = client
        self.prefix = prefix
        self.headers = {} if role is None else {"X-Role": role}

    def get(self, path: str, **options: Any) -> TestResponse:
        headers = {**self.headers, **options.pop("headers", {})}
        return self.client.get(self.prefix + path, headers=headers, **options)

    def token(self) -> str:
        found = TOKEN.search(self.get("/locks").text) or TOKEN.search(self.get("/jobs").text)
        assert found is not None
        return found[1]

    def post(self, path: str, data: Any = None, **options: Any) -> TestResponse:
        headers = {**self.headers, **options.pop("headers", {})}
        form = {"csrf_token": self.token(), **(data or {})}
        return self.client.post(self.prefix + path, data=form, headers=headers, **options)


def make_app(jobs: Any, policy: Any = None, **options: Any) -> Flask:
    """A host with the UI under a prefix."""
    app = Flask("host")
    app.config.update(SECRET_KEY="tests", TESTING=True)
    blueprint = webui.create_blueprint(jobs, policy or RolePolicy(), api_policy=webui.TokenPolicy("t0k3n"), **options)
    app.register_blueprint(blueprint, url_prefix=PREFIX)
    return app
