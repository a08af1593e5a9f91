"""A route and the permission that it needs, declared together: there is no way to add one without the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from flask.typing import ResponseReturnValue

if TYPE_CHECKING:
    from webui.ui import Ui

PUBLIC = "public"
"""For static files and probes: no policy is asked."""
SIGNED_IN = "signed in"
"""For what concerns the viewer alone: any actor will do."""

View = Callable[..., ResponseReturnValue]


class Route(NamedTuple):
    """One URL rule. ``action`` may name view arguments: ``job.{command}``."""

    rule: str
    endpoint: str
    view: View
    action: str
    method: str = "GET"
    api: bool = False
    """Whether it takes bearer tokens, and nothing else."""

    def needs(self, arguments: dict[str, Any]) -> str:
        """The action that a request to this route is."""
        return self.action.format(**arguments)

    def bound(self, ui: Ui) -> View:
        """The view for one blueprint, carrying its action where a test can read it."""

        def view(**arguments: Any) -> ResponseReturnValue:
            if self.method != "GET" or self.action == PUBLIC:
                return self.view(ui, **arguments)
            return ui.admin.together(lambda: self.view(ui, **arguments))

        view.__name__ = f"sloppyjobs_{self.endpoint}"
        view.__doc__ = self.view.__doc__
        view.sloppyjobs_action = self.action  # type: ignore[attr-defined]
        return view


def changes(action: str) -> bool:
    """Whether an action changes anything that others see."""
    return action not in (PUBLIC, SIGNED_IN) and not action.endswith(".view")
