"""Failed logins, for whoever guards the admin pages."""

from __future__ import annotations

from sloppyjobs.domain import options
from sloppyjobs.storage.ports import Store


class ThrottleAdmin:
    """Counters of failures that every process sees. They say nothing about jobs, and expire by themselves."""

    _storage: Store

    def failures(self, client: str, window: float = 60.0) -> tuple[int, float]:
        """How often a client has failed since the span of ``window`` seconds began, and how many of these are left."""
        return self._storage.throttles.failures(options.text("client", client), window)

    def count_failure(self, client: str, window: float = 60.0) -> None:
        """Count one failure of a client. Whoever calls this bounds the number of clients: each has a row."""
        self._storage.throttles.count(options.text("client", client), window)
