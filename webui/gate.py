"""The one place where every request is admitted or refused, before its view runs."""

from __future__ import annotations

from flask import Response, current_app, request, session
from flask.typing import ResponseReturnValue
from htmx_flask.requests import HtmxHeaders

from webui import security
from webui.routes import PUBLIC, Route
from webui.ui import SIGNED_OUT, Ui, Visit


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


class Unauthenticated(Exception):
    """Nobody is asking the API. ``answer`` is what the policy would say to a browser."""

    def __init__(self, answer: Response) -> None:
        super().__init__(answer.status)
        self.answer = answer


def admit(ui: Ui) -> ResponseReturnValue | None:
    """Let a request pass, or answer it here. Raises what the error pages explain."""
    route = ui.current_route()
    if route.action == PUBLIC:
        return None
    unsafe = request.method not in security.SAFE
    if unsafe:
        security.check_origin()
    policy = ui.api_policy if route.api else ui.policy
    if policy is None:
        raise NoPolicy("api_policy" if route.api else "policy")
    if route.api:
        # Whatever the policy goes by: a cookie is sent by a page elsewhere too, this header is not.
        security.check_bearer()
    # After signing out the browser may still send the password by itself: it is asked for once more.
    left = ui.signs_out and not route.api and session.pop(SIGNED_OUT, False)
    actor = None if left else policy.actor()
    if actor is None:
        return _unauthenticated(route, current_app.make_response(policy.on_unauthenticated()))
    visit = ui.begin(policy, actor)
    _check_permission(visit, route)
    if unsafe and not route.api and not route.leads_nowhere:
        security.check_token()
    return None


def _unauthenticated(route: Route, answer: Response) -> ResponseReturnValue:
    """The policy's answer. A script would follow a redirect and show the login as the page: it gets 401."""
    if route.api:
        raise Unauthenticated(answer)
    if HtmxHeaders(request.headers) and 300 <= answer.status_code < 400:
        return Response(status=401)
    return answer


def _check_permission(visit: Visit, route: Route) -> None:
    missing = visit.lacks(route, request.view_args or {})
    if missing is not None:
        raise Denied(missing, visit.actor_name, read_only=visit.read_only)


def exempt_from_host(ui: Ui) -> None:
    """Tell a host's CSRFProtect about our routes that take bearer tokens: they carry no cookie to abuse.

    Runs as a URL preprocessor, before the host's protection looks at the request.
    """
    route = ui.current_route()
    protection = current_app.extensions.get("csrf")
    if route.api and protection is not None and request.endpoint is not None:
        view = current_app.view_functions[request.endpoint]
        protection.exempt(f"{view.__module__}.{view.__name__}")
