"""Headers, and the proof that an unsafe request came from a page of ours."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Response, current_app, request
from flask_wtf.csrf import generate_csrf, validate_csrf
from wtforms import ValidationError

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind} 'self'" for kind in ("script-src", "style-src", "img-src", "connect-src", "font-src")),
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not "no-referrer": a host's CSRFProtect asks for the referrer over https.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
CHALLENGE = 'Bearer realm="sloppyjobs"'
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class ForeignOrigin(Exception):
    """An unsafe request that a page elsewhere has sent."""


class BearerMissing(Exception):
    """A request to the API without a bearer token."""


class FormExpired(Exception):
    """An unsafe request without a valid token."""


class SecretKeyMissing(Exception):
    """The application has no ``SECRET_KEY``, and so no tokens and no sessions."""


def protect(response: Response) -> Response:
    """Put the headers on a response of the blueprint."""
    for name, value in HEADERS.items():
        response.headers[name] = value
    response.headers.setdefault("Cache-Control", "no-store")
    if "immutable" not in response.headers["Cache-Control"]:
        for header in ("HX-Request", "Cookie", "Authorization"):
            response.vary.add(header)
    return response


def check_origin() -> None:
    """Refuse an unsafe request that a browser says comes from elsewhere; every browser of today does say."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        if site not in ("same-origin", "none"):
            raise ForeignOrigin(site)
        return
    origin = request.headers.get("Origin")
    # The scheme is left out: behind a proxy that ends TLS it is not ours to know.
    if origin is not None and urlsplit(origin).netloc != request.host:
        raise ForeignOrigin(origin)


def bearer() -> str | None:
    """The token in ``Authorization: Bearer …``, as it was sent; None where there is none."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    return given.strip() or None if scheme.lower() == "bearer" else None


def check_bearer() -> None:
    """Refuse a request without a bearer token. No page elsewhere can make a browser send one."""
    if bearer() is None:
        raise BearerMissing


def check_token() -> None:
    """Refuse an unsafe request without the token of this session; also beside a host's own protection."""
    given = request.form.get(token_field()) or request.headers.get("X-CSRFToken")
    try:
        validate_csrf(given)
    except ValidationError as error:
        raise FormExpired(str(error)) from error


def token() -> str:
    """The token for the forms of this response."""
    if not has_secret():
        raise SecretKeyMissing
    made: str = generate_csrf()
    return made


def has_secret() -> bool:
    """Whether the application has a ``SECRET_KEY``."""
    return bool(current_app.secret_key)


def token_field() -> str:
    """The name of the form field that carries it, as a host's protection expects it."""
    name: str = current_app.config.get("WTF_CSRF_FIELD_NAME", "csrf_token")
    return name
