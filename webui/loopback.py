"""The guard of an application without authentication: only this machine itself is answered.

It goes by the address of the connection, as the server saw it. The Host header is checked besides: a web page whose
name leads to a loopback address could reach the application through the browser of somebody on this machine.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from flask import Response
from werkzeug.sansio.utils import host_is_trusted

from webui import failures, security
from webui.failures import Explained

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_INSTEAD = "Set SLOPPYJOBS_WEBUI_USERNAME and SLOPPYJOBS_WEBUI_PASSWORD instead of SLOPPYJOBS_WEBUI_INSECURE."
_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<name>[^\[\]:]+?)\.?)(?::[0-9]+)?")
_FORWARDED = ("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP")
ELSEWHERE = Explained(
    403,
    "LOOPBACK_ONLY",
    "403: this machine only",
    f"Without authentication only requests from a loopback address are answered, over TCP. {_INSTEAD}",
    "locks",
)
PROXIED = Explained(
    403,
    "LOOPBACK_ONLY",
    "403: not through a proxy",
    f"Without authentication a request that a proxy has forwarded is refused: it may come from anywhere. {_INSTEAD}",
    "locks",
)
OTHER_NAME = Explained(
    400,
    "HOST_NOT_TRUSTED",
    "400: unknown host name",
    "Without authentication only localhost and loopback addresses are answered. "
    "For another name of this machine, add it to SLOPPYJOBS_WEBUI_HOSTS.",
    "locks",
)


class LoopbackOnly:
    """Answers 403 or 400 to everything that does not come from this machine; the outermost of the application."""

    def __init__(self, app: WSGIApplication, hosts: Sequence[str]) -> None:
        self._app = app
        self._hosts = list(hosts)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Refuse, or pass on."""
        refused = self._refusal(environ)
        if refused is None:
            return self._app(environ, start_response)
        if environ.get("PATH_INFO", "").startswith("/api/"):
            response = failures.as_json(refused)
        else:
            response = Response(f"{refused.title}\n{refused.text}\n", refused.status, mimetype="text/plain")
        return security.protect(response)(environ, start_response)

    def _refusal(self, environ: WSGIEnvironment) -> Explained | None:
        if not is_loopback(environ.get("REMOTE_ADDR", "")):
            return ELSEWHERE
        if any(name.startswith("HTTP_X_FORWARDED") or name in _FORWARDED for name in environ):
            return PROXIED
        host = environ.get("HTTP_HOST", "")
        known = _names_loopback(host) or (bool(self._hosts) and host_is_trusted(host, self._hosts))
        return None if known else OTHER_NAME


def is_loopback(address: str) -> bool:
    """Whether an address is this machine's own. A UNIX socket has none, and is what proxies connect to."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback


def _names_loopback(host: str) -> bool:
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = found["v6"] or found["name"]
    return name.lower() == "localhost" or is_loopback(name)
