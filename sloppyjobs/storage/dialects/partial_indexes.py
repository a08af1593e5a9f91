"""Partial indexes of databases that match a query's predicate with an index's."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import text

from sloppyjobs.storage.schema.style import IndexForm, TableStyle


class PartialIndexes(TableStyle):
    """Indexes with a WHERE clause, under the keyword that SQLAlchemy has for it."""

    # An expression, so that a planner does not derive the predicates from ``status = 'queued'``: without statistics it
    # would take such an index for a claim, and read and sort the whole backlog.
    listed_status = "coalesce(status, '')"
    keyword: ClassVar[str]

    def partial_index(self, columns: tuple[str, ...], where: str, *, distinct: bool = False) -> IndexForm:  # noqa: ARG002
        """With the predicate."""
        options: dict[str, Any] = {self.keyword: text(where)}
        return IndexForm(columns, options)

    @property
    def ended_members(self) -> str:
        """Those that have ended: others have rows as members, and a job that is claimed does not move in the index."""
        return self._ended_members()
