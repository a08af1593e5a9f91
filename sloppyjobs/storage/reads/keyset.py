"""Walking an index from a key, a page at a time: the one way in which lists are read.

A walk follows an index in its order. What the index knows narrows the walk; what it does not know sifts the
entries, and then a walk looks at no more than ``SCAN_LIMIT`` of them and says where it stopped. Several walks in
the same order are merged into one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, Subquery, literal_column, select, tuple_, union_all

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.ports.reads import Key

SCAN_LIMIT = 10_000
"""Index entries that a walk with sifted filters looks at for one page."""
COMPOUND = 50
"""Branches in one statement."""

Sieve = tuple[ColumnElement[Any], Callable[[Any], ColumnElement[bool]]]
"""A column that the index does not narrow, and the condition on it."""


class Walk(NamedTuple):
    """One way along an index. ``keys`` order it, and together they are unique."""

    where: tuple[ColumnElement[bool], ...]
    keys: tuple[ColumnElement[Any], ...]
    sieves: tuple[Sieve, ...] = ()
    prefix: tuple[ColumnElement[Any], ...] = ()
    """Index columns before the keys that ``where`` holds fixed, for planners that do not see it."""


class Walked(NamedTuple):
    """The keys that were found, in order, and the key after which to go on; None at the end."""

    found: list[Key]
    resume: Key | None


class Keyset:
    """Bounded reads for lists."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def read(
        self,
        connection: Connection,
        walks: Sequence[Walk],
        *,
        after: Key | None,
        descending: bool,
        limit: int,
    ) -> Walked:
        """Up to ``limit`` keys beyond ``after``, merged from all walks."""
        # Most filters find a page soon; only those that find little look as far as they may.
        walked = self._walk_window(connection, walks, after, descending, limit, min(20 * limit, SCAN_LIMIT))
        if len(walked.found) < limit and walked.resume is not None:
            walked = self._walk_window(connection, walks, after, descending, limit, SCAN_LIMIT)
        return walked

    def _walk_window(
        self,
        connection: Connection,
        walks: Sequence[Walk],
        after: Key | None,
        descending: bool,
        limit: int,
        window: int,
    ) -> Walked:
        queries = [_found(walk, after, descending, limit + 1, window) for walk in walks]
        queries += [_stop(walk, after, descending, window) for walk in walks if walk.sieves]
        answers = [[tuple(row) for row in rows] for rows in self.each(connection, queries)]
        found, ends = answers[: len(walks)], iter(answers[len(walks) :])
        stops = []
        for walk, keys in zip(walks, found, strict=True):
            end = next(ends) if walk.sieves else []
            # A walk that found enough did not have to stop.
            stops += end if len(keys) <= limit else []
        merged = sorted((key for keys in found for key in keys), reverse=descending)
        # Beyond the first stop another walk may have entries that come earlier.
        horizon = (max if descending else min)(stops) if stops else None
        if horizon is not None:
            merged = [key for key in merged if (key >= horizon if descending else key <= horizon)]
        if len(merged) > limit:
            return Walked(merged[:limit], merged[limit - 1])
        return Walked(merged, horizon)

    def each(self, connection: Connection, queries: Sequence[Select[Any]]) -> list[list[Sequence[Any]]]:
        """The rows of each query, many queries in one statement."""
        answers: list[list[Sequence[Any]]] = [[] for _ in queries]
        for start in range(0, len(queries), COMPOUND):
            chunk = queries[start : start + COMPOUND]
            branches = [_numbered(query, start + place) for place, query in enumerate(chunk)]
            statement = union_all(*branches) if len(branches) > 1 else branches[0]
            for row in connection.execute(statement):
                answers[row[0]].append(row[1:])
        return answers


def walk_after(query: Select[Any], walk: Walk, after: Key | None, descending: bool) -> Select[Any]:
    """The query narrowed to a walk's entries beyond a key, in its order."""
    query = query.where(*walk.where)
    if after is not None:
        # One comparison of rows, and not of columns one by one: thousands of jobs may share an instant.
        mine, theirs = tuple_(*walk.keys), tuple_(*after, types=[key.type for key in walk.keys])
        query = query.where(mine < theirs if descending else mine > theirs)
    columns = (*walk.prefix, *walk.keys)
    return query.order_by(*(column.desc() if descending else column for column in columns))


def _found(walk: Walk, after: Key | None, descending: bool, limit: int, window: int) -> Select[Any]:
    keys = [key.label(f"key{place}") for place, key in enumerate(walk.keys)]
    sifted = [column.label(f"sieve{place}") for place, (column, _) in enumerate(walk.sieves)]
    query = walk_after(select(*keys, *sifted), walk, after, descending)
    if not walk.sieves:
        return query.limit(limit)
    looked = query.limit(window).subquery()
    names = [looked.c[key.name] for key in keys]
    conditions = [condition(looked.c[f"sieve{place}"]) for place, (_, condition) in enumerate(walk.sieves)]
    order = [name.desc() if descending else name for name in names]
    return select(*names).where(*conditions).order_by(*order).limit(limit)


def _stop(walk: Walk, after: Key | None, descending: bool, window: int) -> Select[Any]:
    """The last entry that a sifting walk looked at, if it had to stop before the end."""
    keys = [key.label(f"key{place}") for place, key in enumerate(walk.keys)]
    return walk_after(select(*keys), walk, after, descending).limit(1).offset(window - 1)


def _numbered(query: Select[Any], number: int) -> Select[Any]:
    # As a subquery, because not every database takes an ORDER BY inside a UNION.
    inner: Subquery = query.subquery()
    return select(literal_column(str(number)), *inner.c)
