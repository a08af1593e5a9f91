"""The one place where every request is admitted or refused, before its view runs."""

from __future__ import annotations

from flask import Response, current_app, request
from flask.typing import ResponseReturnValue
from htmx_flask.requests import HtmxHeaders

from webui import security
from webui.policy import Policy
from webui.routes import PUBLIC, SIGNED_IN, Route
from webui.ui import Ui, Visit


class Denied(Exception):
    """The actor lacks a permission."""

    def __init__(self, action: str, actor: str, *, read_only: bool = False) -> None:
        super().__init__(action)
        self.action = action
        self.actor = actor
        self.read_only = read_only


class NoPolicy(Exception):
    """The blueprint was made without a policy, so nobody may do anything."""

    def __init__(self, option: str) -> None:
        super().__init__(option)
        self.option = option


def admit(ui: Ui) -> ResponseReturnValue | None:
    """Let a request pass, or answer it here. Raises what the error pages explain."""
    route = ui.routes[(request.endpoint or "").rpartition(".")[2]]
    if route.action == PUBLIC:
        return None
    unsafe = request.method not in security.SAFE
    if unsafe and not route.api:
        security.check_origin()
    policy = ui.api_policy if route.api else ui.policy
    if policy is None:
        raise NoPolicy("api_policy" if route.api else "policy")
    actor = policy.actor()
    if actor is None:
        return _unauthenticated(policy)
    visit = ui.begin(policy, actor)
    _check_permission(visit, route)
    if unsafe and not route.api:
        security.check_token()
    return None


def _unauthenticated(policy: Policy) -> ResponseReturnValue:
    """The policy's answer. A script would follow a redirect and show the login inside the page: it reloads instead."""
    answer = current_app.make_response(policy.on_unauthenticated())
    if HtmxHeaders(request.headers) and 300 <= answer.status_code < 400:
        return Response(status=401, headers={"HX-Refresh": "true"})
    return answer


def _check_permission(visit: Visit, route: Route) -> None:
    arguments = request.view_args or {}
    action = route.needs(arguments)
    if action == SIGNED_IN:
        return
    if not visit.may(action, id=arguments.get("id") or arguments.get("name")):
        raise Denied(action, visit.actor_name, read_only=visit.read_only)


def exempt_from_host(ui: Ui) -> None:
    """Tell a host's CSRFProtect about our routes that take bearer tokens: they carry no cookie to abuse.

    Runs as a URL preprocessor, before the host's protection looks at the request.
    """
    route = ui.routes[(request.endpoint or "").rpartition(".")[2]]
    protection = current_app.extensions.get("csrf")
    if route.api and protection is not None and request.endpoint is not None:
        view = current_app.view_functions[request.endpoint]
        protection.exempt(f"{view.__module__}.{view.__name__}")
