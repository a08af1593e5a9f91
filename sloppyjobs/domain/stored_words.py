"""Words of a fixed set as the database has them, where somebody else may have written another one. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

from sloppyjobs.domain.states import Status

E = TypeVar("E", bound=Enum)


def known_or(otherwise: E, stored: Any) -> E:
    """The member that is stored, or this one where no member is: one damaged row must not hide its neighbours."""
    try:
        return type(otherwise)(stored)
    except ValueError:
        return otherwise


def status_or_none(stored: Any) -> Status | None:
    """The status of a job that may be gone; ``FAILED``, which no row is left in, for a word that is none."""
    return None if stored is None else known_or(Status.FAILED, stored)
