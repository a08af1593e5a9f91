"""Where a form was sent from. What a request says of it is only looked up: the address is always built anew.

An address that is not one of our pages is none, and of its query only what the page understands is carried on.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from flask import current_app, request, url_for
from werkzeug.exceptions import HTTPException

from webui import routes
from webui.routes import PUBLIC, Route
from webui.ui import Ui

FIELD = "here"
"""The hidden field in which a form names its page."""
_FRAGMENTS = ("counts",)
_LONGEST = 8_000


def origin(ui: Ui) -> str:
    """The page that the form of this request was on; the nearest above its address where nobody says."""
    for address in (request.form.get(FIELD), request.headers.get("HX-Current-URL"), request.referrer):
        found = page_at(ui, address)
        if found is not None:
            return found
    above = request.script_root + request.path
    while above := above.rpartition("/")[0]:
        page = page_of(ui, above)
        if page is not None:
            return url_for(f".{page[0].endpoint}", **page[1])
    return url_for(".overview")


def page_at(ui: Ui, address: str | None) -> str | None:
    """The address of the page of ours that an address leads to; None where it leads elsewhere."""
    if not address or len(address) > _LONGEST:
        return None
    parts = _split(address)
    if parts is None or (parts.netloc and parts.netloc != request.host):
        return None
    found = page_of(ui, unquote(parts.path))
    if found is None:
        return None
    route, values = found
    query = {name: value for name, value in reversed(parse_qsl(parts.query)) if name in route.query}
    return url_for(f".{route.endpoint}", **{**query, **values})


def page_of(ui: Ui, path: str) -> tuple[Route, dict[str, Any]] | None:
    """The page of ours at a path, with the arguments of its view; for the address of a form the nearest above it."""
    while path and takes_forms_alone(ui, path):
        # A page whose rule takes any path, such as that of a job, matches the addresses of its forms, too.
        path = path.rpartition("/")[0]
    found = _route_at(ui, path, "GET")
    return found if found is not None and _is_page(found[0]) else None


def shows_an_answer(ui: Ui) -> bool:
    """Whether the script that asks is on a page that was answered to a form."""
    parts = _split(request.headers.get("HX-Current-URL", ""))
    return parts is not None and takes_forms_alone(ui, unquote(parts.path))


def _split(address: str) -> SplitResult | None:
    try:
        return urlsplit(address)
    except ValueError:
        return None


def takes_forms_alone(ui: Ui, path: str) -> bool:
    """Whether a path is there for forms, and is no page: what is shown there was answered to one."""
    sent, shown = _route_at(ui, path, "POST"), _route_at(ui, path, "GET")
    if sent is None or sent[0].leads_nowhere:
        return False
    return shown is None or not _is_page(shown[0]) or shown[0].rule != sent[0].rule


def _route_at(ui: Ui, path: str, method: str) -> tuple[Route, dict[str, Any]] | None:
    root = request.script_root
    if root and not path.startswith(f"{root}/"):
        return None
    addresses = current_app.create_url_adapter(request)
    assert addresses is not None
    try:
        endpoint, found = addresses.match(path.removeprefix(root), method=method)
    except HTTPException:
        return None
    blueprint, _, name = endpoint.rpartition(".")
    route = ui.routes.get(name)
    if blueprint != request.blueprint or route is None:
        return None
    values = dict(found)
    routes.decode_values(name, values)
    return route, values


def _is_page(route: Route) -> bool:
    shown = route.method == "GET" and not route.api and not route.leads_nowhere
    return shown and route.action != PUBLIC and route.endpoint not in _FRAGMENTS
