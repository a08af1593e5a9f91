"""Who may use the admin pages: the users that Flask-Login knows."""

from __future__ import annotations

from typing import Any

from flask.typing import ResponseReturnValue
from flask_login import current_user

import webui
from blog import login


class AdminPolicy:
    """Administrators do everything, others nothing."""

    def actor(self) -> Any:
        """Whoever is signed in, by name; the audit trail shows it."""
        return current_user.name if current_user.is_authenticated else None

    def can(self, actor: Any, action: str, resource: webui.Resource) -> bool:  # noqa: ARG002
        """Every action, for administrators."""
        return bool(current_user.is_admin)

    def scope(self, actor: Any) -> Any:  # noqa: ARG002
        """All queues."""
        return None

    def on_unauthenticated(self) -> ResponseReturnValue:
        """To the blog's own page, and back."""
        answer: ResponseReturnValue = login.unauthorized()
        return answer
