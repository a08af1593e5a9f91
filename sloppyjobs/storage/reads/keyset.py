"""Keyset pagination: the one way in which lists are read.

A scan follows an index in its order, from a key. Conditions on the index's columns narrow it; other conditions filter
the entries, and then a scan reads at most ``SCAN_LIMIT`` of them and says where it stopped. Several scans in the same
order are merged into one page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, Subquery, literal_column, select, union_all

from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialect import Dialect
from sloppyjobs.storage.ports.reads import Key
from sloppyjobs.storage.schema.style import EARLIEST, LATEST, out_of_range

SCAN_LIMIT = 10_000
"""Index entries that a scan with filters reads for one page."""
COMPOUND = 50
"""Branches in one statement."""

R = TypeVar("R")
Filter = tuple[ColumnElement[Any], Callable[[Any], ColumnElement[bool]]]
"""A column that is not in the index, and the condition on it."""


class Scan(NamedTuple):
    """A range of an index. ``keys`` order it, and are unique as a whole."""

    where: tuple[ColumnElement[bool], ...]
    keys: tuple[ColumnElement[Any], ...]
    filters: tuple[Filter, ...] = ()
    prefix: tuple[ColumnElement[Any], ...] = ()
    """Index columns before the keys that ``where`` holds fixed, for planners that do not see it."""


class KeysetPage(NamedTuple):
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
        scans: Sequence[Scan],
        *,
        after: Key | None,
        descending: bool,
        limit: int,
    ) -> KeysetPage:
        """Up to ``limit`` keys beyond ``after``, merged from all scans."""
        # Most filters fill a page soon; only those that match little read up to the limit.
        window = min(20 * limit, SCAN_LIMIT)
        page = self._read_window(connection, scans, after, descending, limit, window)
        if len(page.found) < limit and page.resume is not None and window < SCAN_LIMIT:
            page = self._read_window(connection, scans, after, descending, limit, SCAN_LIMIT)
        return page

    def _read_window(
        self,
        connection: Connection,
        scans: Sequence[Scan],
        after: Key | None,
        descending: bool,
        limit: int,
        window: int,
    ) -> KeysetPage:
        found, ends = self._read_keys(connection, scans, after, descending, limit + 1, window)
        stops = []
        for scan, keys in zip(scans, found, strict=True):
            end = next(ends) if scan.filters else []
            # A scan that found enough did not have to stop.
            stops += end if len(keys) <= limit else []
        merged = sorted((key for keys in found for key in keys), reverse=descending)
        # Beyond the first stop another scan may have entries that come earlier.
        horizon = (max if descending else min)(stops) if stops else None
        if horizon is not None:
            merged = [key for key in merged if (key >= horizon if descending else key <= horizon)]
        if len(merged) > limit:
            return KeysetPage(merged[:limit], merged[limit - 1])
        return KeysetPage(merged, horizon)

    def _read_keys(
        self, connection: Connection, scans: Sequence[Scan], after: Key | None, descending: bool, most: int, window: int
    ) -> tuple[list[list[Key]], Iterator[list[Key]]]:
        """Up to ``most`` keys of each scan, and where the scans with filters stopped."""
        asked = most
        while True:
            queries = [self._found(scan, after, descending, asked, window) for scan in scans]
            queries += [self._stop(scan, after, descending, window) for scan in scans if scan.filters]
            answers = [[tuple(row) for row in rows] for rows in self.each(connection, queries)]
            found, ends = answers[: len(scans)], iter(answers[len(scans) :])
            fresh = [[key for key in keys if _is_beyond(key, after, descending)] for keys in found]
            short = any(_needs_more(keys, new, most, asked) for keys, new in zip(found, fresh, strict=True))
            if not short or asked >= SCAN_LIMIT:
                return [sorted(keys, reverse=descending)[:most] for keys in fresh], ends
            asked = min(10 * asked, SCAN_LIMIT)

    def _found(self, scan: Scan, after: Key | None, descending: bool, limit: int, window: int) -> Select[Any]:
        keys = [key.label(f"key{place}") for place, key in enumerate(scan.keys)]
        filtered = [column.label(f"filter{place}") for place, (column, _) in enumerate(scan.filters)]
        query = scan_after(self.database.dialect, select(*keys, *filtered), scan, after, descending)
        if not scan.filters:
            return query.limit(limit)
        scanned = query.limit(window).subquery()
        names = [scanned.c[key.name] for key in keys]
        conditions = [condition(scanned.c[f"filter{place}"]) for place, (_, condition) in enumerate(scan.filters)]
        order = [name.desc() if descending else name for name in names]
        return select(*names).where(*conditions).order_by(*order).limit(limit)

    def _stop(self, scan: Scan, after: Key | None, descending: bool, window: int) -> Select[Any]:
        """The last entry that a scan with filters read, if it had to stop before the end."""
        keys = [key.label(f"key{place}") for place, key in enumerate(scan.keys)]
        return scan_after(self.database.dialect, select(*keys), scan, after, descending).limit(1).offset(window - 1)

    def each(self, connection: Connection, queries: Sequence[Select[Any]]) -> list[list[Sequence[Any]]]:
        """The rows of each query, in no order that databases promise; many queries in one statement."""
        answers: list[list[Sequence[Any]]] = [[] for _ in queries]
        for start in range(0, len(queries), COMPOUND):
            chunk = queries[start : start + COMPOUND]
            branches = [_numbered(query, start + place) for place, query in enumerate(chunk)]
            statement = union_all(*branches) if len(branches) > 1 else branches[0]
            for row in connection.execute(statement):
                answers[row[0]].append(row[1:])
        return answers


def scan_after(dialect: Dialect, query: Select[Any], scan: Scan, after: Key | None, descending: bool) -> Select[Any]:
    """The query narrowed to a scan's entries beyond a key, in its order."""
    query = query.where(*scan.where)
    if after is not None:
        query = query.where(dialect.beyond(scan.keys, _bound(after, descending), descending=descending))
    columns = (*scan.prefix, *scan.keys) if dialect.orders_by_fixed else scan.keys
    return query.order_by(*(column.desc() if descending else column for column in columns))


def beyond_rows(
    read: Callable[[int], Sequence[R]], key_of: Callable[[R], Key], after: Key | None, descending: bool, most: int
) -> list[R]:
    """Up to ``most`` rows beyond a key, of those that ``read`` finds in the order of the database."""
    asked = most
    while True:
        found = read(asked)
        fresh = [row for row in found if _is_beyond(key_of(row), after, descending)]
        keys, new = ([key_of(row) for row in rows] for rows in (found, fresh))
        if asked >= SCAN_LIMIT or not _needs_more(keys, new, most, asked):
            return sorted(fresh, key=key_of, reverse=descending)[:most]
        asked = min(10 * asked, SCAN_LIMIT)


def _needs_more(found: Sequence[Key], fresh: Sequence[Key], most: int, asked: int) -> bool:
    """Whether a read that was cut short may have missed keys: by those that were passed before, or by their order."""
    return len(found) == asked and (len(fresh) < most or any(_is_damaged(key) for key in found))


def _is_damaged(key: Key) -> bool:
    return isinstance(key[0], datetime) and out_of_range(key[0])


def _is_beyond(key: Key, after: Key | None, descending: bool) -> bool:
    """Whether a key really comes after another.

    An instant that somebody has written by hand may sort otherwise than it reads: as what no ``datetime`` can hold, or
    in another form than ours. It must not lead back to where a list has been.
    """
    if after is None or not isinstance(after[0], datetime):
        return True
    return key < after if descending else key > after


def _bound(after: Key, descending: bool) -> Key:
    """The key to search beyond: of instants that read as the first or the last one, any may be stored."""
    if not _is_damaged(after):
        return after
    inside = timedelta(microseconds=1)
    if descending and after[0] <= EARLIEST:
        return (EARLIEST + inside, *after[1:])
    return after if descending or after[0] <= EARLIEST else (LATEST - inside, *after[1:])


def _numbered(query: Select[Any], number: int) -> Select[Any]:
    # As a subquery, because not every database takes an ORDER BY inside a UNION.
    inner: Subquery = query.subquery()
    return select(literal_column(str(number)), *inner.c)


def same_value(column: Any, value: Any) -> ColumnElement[bool]:
    """The column has this value; None is a value too."""
    condition: ColumnElement[bool] = column.is_(None) if value is None else column == value
    return condition
