"""On whose behalf jobs are enqueued in a request: the user of Flask-Login, where the application has it."""

from __future__ import annotations

from flask import current_app, has_request_context

from sloppyjobs.domain.options import KEY_LENGTH


def signed_in_user() -> str | None:
    """The id of the user who is signed in; None outside of requests, without Flask-Login, and for a stranger."""
    if not has_request_context() or not hasattr(current_app, "login_manager"):
        return None
    from flask_login import current_user  # type: ignore[import-untyped] # noqa: PLC0415 - only where the application has it

    if not getattr(current_user, "is_authenticated", False):
        return None
    found = current_user.get_id()
    return None if found is None else str(found)[:KEY_LENGTH] or None
