"""Counting along an index, up to a bound: no count ever reads history.

A page that counts many things shares one bound among them, so that it costs the same with ten queues as with a
hundred, and with a thousand jobs as with a million. Who has few is counted exactly; who has many gets what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, case, func, literal_column, select

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.ports.reads import WINDOW, Count, Counted, Scope
from sloppyjobs.storage.reads.keyset import Keyset

CAP = 10_000
"""Where every count stops."""
LEAST = 50
"""No count stops before this, however many share."""


class Counts:
    """Bounded counts. A query selects a ``moment``, or a ``first`` where it is ordered by that, along an index."""

    def __init__(self, database: Database, keyset: Keyset) -> None:
        self.database = database
        self.keyset = keyset

    def within(self, query: Select[Any], queue: ColumnElement[Any], queues: Scope) -> Select[Any]:
        """The query, with a mark on the entries of these queues."""
        return query if queues is None else query.add_columns(case((queue.in_(queues), 1)).label("seen"))

    def counted(self, connection: Connection, queries: Sequence[Select[Any]]) -> list[Counted]:
        """Each query counted on its own, up to the cap."""
        return self.to_caps(connection, [(query, CAP) for query in queries])

    def counted_with(
        self, connection: Connection, queries: Sequence[Select[Any]], other: Select[Any]
    ) -> tuple[list[Counted], Sequence[Any]]:
        """The same, and the only row of another query: two whole numbers and an instant, in the same statement."""
        *answers, [found] = self.keyset.each(connection, [*(_bounded(query, CAP) for query in queries), other])
        return [_count(answer[0], CAP) for answer in answers], found

    def shared(self, connection: Connection, queries: Sequence[Select[Any]], most: int) -> list[Counted]:
        """All queries counted to ``most`` entries in all: equal shares first, then the deepest share the rest."""
        if not queries:
            return []
        share = share_of(most, len(queries))
        found = self.in_shares(connection, queries, most)
        deep = [place for place, (count, _) in enumerate(found) if count.more]
        left = most - sum(count.number for count, _ in found)
        further = min(CAP, round_down(max(0, left) // len(deep) + share)) if deep else 0
        if further > share:
            deeper = self.to_caps(connection, [(queries[place], further) for place in deep])
            for place, counted in zip(deep, deeper, strict=True):
                found[place] = counted
        return found

    def in_shares(self, connection: Connection, queries: Sequence[Select[Any]], most: int) -> list[Counted]:
        """All queries counted to ``most`` entries in all, in equal shares and one statement."""
        return self.to_caps(connection, [(query, share_of(most, len(queries))) for query in queries])

    def to_caps(self, connection: Connection, asked: Sequence[tuple[Select[Any], int]]) -> list[Counted]:
        """Each query counted to a cap of its own, in one statement."""
        answers = self.keyset.each(connection, [_bounded(query, cap) for query, cap in asked])
        return [_count(answer[0], cap) for answer, (_, cap) in zip(answers, asked, strict=True)]


def share_of(most: int, number: int) -> int:
    """What each of so many may count of ``most``."""
    return min(CAP, max(LEAST, round_down(most // number)))


def round_down(number: int) -> int:
    """A cap that people read easily: 1, 2 or 5 and zeros, at most ``number``."""
    size: int = 10 ** (len(str(max(1, number))) - 1)
    return next((step * size for step in (5, 2) if step * size <= number), size)


def _bounded(query: Select[Any], cap: int) -> Select[Any]:
    """How many entries were read, how many of them count (all: -1), and the earliest of these."""
    scanned = query.limit((WINDOW if "seen" in query.selected_columns else cap) + 1).subquery()
    columns: tuple[ColumnElement[Any], ...]
    if "seen" in scanned.c:
        moment = case((scanned.c.seen == 1, scanned.c[0]))
        columns = (func.count(), func.count(scanned.c.seen), func.min(moment))
    elif "first" in scanned.c:
        # Nothing but the number is asked of each entry: that is several times cheaper.
        columns = (func.count(), literal_column("-1").label("matching"), query.limit(1).scalar_subquery())
    else:
        columns = (func.count(), literal_column("-1").label("matching"), func.min(scanned.c.moment))
    return select(*columns).select_from(scanned)


def _count(row: Sequence[Any], cap: int) -> Counted:
    scanned, matching, earliest = row
    if matching < 0:
        return Count(min(scanned, cap), scanned > cap), earliest
    return Count(min(matching, WINDOW), scanned > WINDOW), earliest
