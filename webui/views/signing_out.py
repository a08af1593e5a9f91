"""Sign out of the standalone application.

With HTTP Basic the browser keeps the password and sends it by itself, so two things are done. The page after signing
out answers 401 with a challenge that no browser knows: most of them then forget the password, without asking for it
again. And the session stores that somebody signed out: the next request is answered with 401 whatever it carries, so
that the password must be typed anew in every browser.
"""

from __future__ import annotations

from flask import Response, redirect, session, url_for
from flask.typing import ResponseReturnValue

from webui.policy import Policy
from webui.rendering import render
from webui.routes import PUBLIC, SIGNED_IN, Route
from webui.ui import SIGNED_OUT, Ui

CHALLENGE = 'SignedOut realm="sloppyjobs"'


def sign_out(_ui: Ui) -> Response:
    """Forget the session, and go to where the browser forgets the password."""
    session.clear()
    session[SIGNED_OUT] = True
    return Response(status=303, headers={"Location": url_for(".signed_out")})


def signed_out(ui: Ui) -> ResponseReturnValue:
    """401 to who has just signed out or is not signed in; the overview to who is signed in."""
    if SIGNED_OUT not in session and _signed_in(ui.policy):
        return redirect(url_for(".overview"))
    page = render(ui, "signed-out.html", title="Signed out", status=401)
    page.headers["WWW-Authenticate"] = CHALLENGE
    return page


def _signed_in(policy: Policy | None) -> bool:
    return policy is not None and policy.actor() is not None


ROUTES = (
    Route("/logout", "logout", sign_out, SIGNED_IN, "POST"),
    Route("/signed-out", "signed_out", signed_out, PUBLIC),
)
