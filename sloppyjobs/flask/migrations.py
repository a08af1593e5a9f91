"""For Alembic in the host: its autogenerate leaves our tables alone. They have migrations of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import current_app, has_app_context

from sloppyjobs.autogenerate import is_ours

IncludeObject = Callable[[Any, str | None, str, bool, Any], bool]

_DEFAULT_PREFIX = "sloppy_"


def include_object(object: Any, name: str | None, type_: str, reflected: bool, compare_to: Any) -> bool:
    """Alembic's ``include_object``: False for tables of ours that autogenerate finds in the database.

    Not needed for Flask-Migrate, where autogenerate leaves our tables alone by itself. For other tools that compare a
    database with metadata and take such a function. The prefix of the tables is that of the application in force.
    """
    return include_object_for(_prefix())(object, name, type_, reflected, compare_to)


def include_object_for(prefix: str) -> IncludeObject:
    """``include_object`` for tables of a prefix of their own, where no application is in force."""

    def include(object: Any, name: str | None, type_: str, reflected: bool, compare_to: Any) -> bool:  # noqa: ARG001
        found_only = type_ == "table" and reflected and compare_to is None
        return not (found_only and name is not None and is_ours(name, prefix))

    return include


def _prefix() -> str:
    jobs = current_app.extensions.get("sloppyjobs") if has_app_context() else None
    binding = getattr(jobs, "binding", None)
    return _DEFAULT_PREFIX if binding is None else str(binding.prefix)
