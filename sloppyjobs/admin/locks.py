"""Named locks, as operators see them."""

from __future__ import annotations

from sloppyjobs.paging import Paging
from sloppyjobs.paging import page_size as checked_size
from sloppyjobs.storage.ports import Store
from sloppyjobs.views import LockView, Page


class LockAdmin:
    """The part of ``jobs.admin`` that lists locks."""

    _storage: Store

    def list_locks(self, *, cursor: str | None = None, page_size: int = 50) -> Page[LockView]:
        """Named locks, by name."""
        paging, size = Paging("locks", (str,)), checked_size(page_size)
        position, now = paging.position(cursor), self._storage.clock.now()
        rows = self._storage.history.lock_rows(position.after, backward=position.backward, limit=size + 1)
        items = [
            (
                (row.name,),
                LockView(
                    name=row.name,
                    owner=row.owner,
                    locked_until=row.locked_until,
                    updated_at=row.updated_at,
                    expired=row.locked_until <= now,
                ),
            )
            for row in rows[:size]
        ]
        return paging.page(items, position, items[-1][0] if len(rows) > size else None)
