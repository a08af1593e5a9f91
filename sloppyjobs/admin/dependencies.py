"""What a job waits for, and what waits for it."""

from __future__ import annotations

from collections.abc import Iterable

from sloppyjobs.admin.filters import scope_of
from sloppyjobs.domain import options
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.dependencies import EdgeRow
from sloppyjobs.views import DependenciesView, DependencyView


class DependencyAdmin:
    """The part of ``jobs.admin`` that concerns jobs which wait for others."""

    _storage: Store

    def dependencies(self, id: str, *, scope: Iterable[str] | None = None, limit: int = 100) -> DependenciesView:
        """What a job waits for, and what waits for it: up to ``limit`` of each; nothing for an id that no job has.

        ``scope`` hides other queues.
        """
        limit = options.whole("limit", limit, least=1, most=500)
        found = self._storage.history.neighbours(id, limit + 1)
        visible = scope_of(scope)
        shown = [
            tuple(_dependency_view(edge) for edge in edges[:limit] if visible is None or edge.queue in visible)
            for edges in found
        ]
        return DependenciesView(parents=shown[0], children=shown[1], more=max(map(len, found)) > limit)


def _dependency_view(edge: EdgeRow) -> DependencyView:
    return DependencyView(
        job_id=edge.job_id,
        name=edge.name,
        queue=edge.queue,
        status=edge.status,
        needs=edge.needs,
        state=edge.state.name.lower(),
    )
