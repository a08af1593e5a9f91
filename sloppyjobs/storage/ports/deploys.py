"""Deploys of applications, as a store keeps them."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple, Protocol

from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.storage.ports.reads import Key


class NewDeploy(NamedTuple):
    """A deploy that somebody marks, or that a worker notices. Values are checked already."""

    version: str
    application: str = ""
    """Empty where no application was named: it counts for all of them."""
    note: str | None = None
    worker_id: str | None = None
    """The worker that noticed it; None where somebody marked it."""


class DeployRow(NamedTuple):
    """A deploy; the later one of two has the higher number."""

    number: int
    application: str
    version: str
    note: str | None
    actor: str | None
    worker_id: str | None
    created_at: datetime


class DeployPort(Protocol):
    """Deploys; a store has it as ``deploys``."""

    def mark(self, new: NewDeploy, command: Command | None = None) -> tuple[DeployRow, bool]:
        """Write a deploy, with an audit entry where it was commanded; the deploy, and whether it is new.

        One with the version of the latest is that one, and nothing is written: however many mark it at once.
        """
        ...

    def page(self, after: Key | None, *, backward: bool, limit: int) -> list[DeployRow]:
        """Deploys beyond a number, latest first or backward."""
        ...

    def remove(self, before: datetime, limit: int) -> int:
        """Remove up to ``limit`` deploys from before an instant, but for the latest of each application."""
        ...
