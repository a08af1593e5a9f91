"""The admin UI: a Flask blueprint and a standalone application. Importing it does nothing.

``create_blueprint(jobs, policy=…)`` for an application that is there already, ``gunicorn webui:app`` for one alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webui.blueprint import create_blueprint
from webui.policy import ACTIONS, AllowAll, BasicAuthPolicy, Link, Policy, Resource, TokenPolicy
from webui.standalone import create_app

if TYPE_CHECKING:
    from flask import Flask

    app: Flask

__all__ = [
    "ACTIONS",
    "AllowAll",
    "BasicAuthPolicy",
    "Link",
    "Policy",
    "Resource",
    "TokenPolicy",
    "create_app",
    "create_blueprint",
]


def __getattr__(name: str) -> Any:
    """``webui.app``, made from the environment when a server first asks for it."""
    if name == "app":
        globals()["app"] = made = create_app()
        return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
