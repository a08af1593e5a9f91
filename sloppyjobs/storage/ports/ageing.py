"""Queues whose jobs rise in priority while they wait."""

from __future__ import annotations

from typing import Protocol

from sloppyjobs.domain.ageing import Ageing
from sloppyjobs.storage.ports.operators import Command


class AgeingPort(Protocol):
    """Ageing of queues; a store has it as ``ageing``."""

    def get(self, queue: str) -> Ageing | None:
        """How a queue ages; None where it does not."""
        ...

    def set(self, queue: str, ageing: Ageing | None, command: Command) -> None:
        """Let a queue age, or no more; audited."""
        ...

    def raise_priorities(self, limit: int) -> int:
        """Raise queued jobs by their age, up to ``limit`` of them; how many it was."""
        ...
