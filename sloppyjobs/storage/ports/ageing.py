"""Queues whose jobs rise in priority while they wait."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from sloppyjobs.domain.ageing import Ageing
from sloppyjobs.storage.ports.operators import Command


class AgeingPort(Protocol):
    """Ageing of queues; a store has it as ``ageing``."""

    def get(self, queue: str) -> Ageing | None:
        """How a queue ages; None where it does not."""
        ...

    def set(self, queue: str, ageing: Ageing | None, command: Command) -> None:
        """Let a queue age, or no more, whatever code declares; audited."""
        ...

    def declare(self, queue: str, ageing: Ageing, application: str | None) -> None:
        """Write how code lets a queue age, unless it said the same before: an operator may have changed it since."""
        ...

    def mark_vanished(self, queues: Collection[str], application: str | None) -> list[str]:
        """End the ageing that this application declared for queues not among these; which these were."""
        ...

    def raise_priorities(self, limit: int) -> int:
        """Raise jobs by their age that are queued or wait for a permit, up to ``limit`` of each; how many it was."""
        ...
