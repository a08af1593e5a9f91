"""Pages and their cursors.

A cursor says of which list it is, in which direction it goes, after which key, and a digest of the filters and
the order. It is a position and no more: it carries no right, and is refused wherever it does not belong.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from sloppyjobs.domain import options
from sloppyjobs.errors import InvalidOption
from sloppyjobs.views import Page

T = TypeVar("T")

PAGE_SIZE = 500
_LONGEST = 1_500
_NEXT, _PREVIOUS = "n", "p"

Key = tuple[Any, ...]


class _Cursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    kind: str
    direction: str
    key: list[str | int]
    digest: str


class Position(NamedTuple):
    """Where a page begins: after a key, in the list's order or backward; at the first page without a key."""

    after: Key | None = None
    backward: bool = False


class Paging(NamedTuple):
    """One list with its filters: reads cursors, and makes pages with new ones. ``types`` are those of its key."""

    kind: str
    types: tuple[type, ...]
    filters: Any = None

    def position(self, cursor: str | None) -> Position:
        """Where the cursor points; ``InvalidOption`` for one that is damaged or of another list."""
        if cursor is None:
            return Position()
        found = _read(cursor)
        if found is None or found.direction not in (_NEXT, _PREVIOUS):
            raise options.refuse("cursor", cursor, "is damaged; use next_cursor or previous_cursor of a page")
        if (found.kind, found.digest) != (self.kind, self._digest()):
            raise options.refuse(
                "cursor", cursor, "belongs to another list, or to this one with other filters or another order"
            )
        key = _parsed(found.key, self.types)
        if key is None:
            raise options.refuse("cursor", cursor, "is damaged; use next_cursor or previous_cursor of a page")
        return Position(key, found.direction == _PREVIOUS)

    def page(self, items: Sequence[tuple[Key, T]], position: Position, resume: Key | None) -> Page[T]:
        """The page of items that were read from a position on; ``resume`` is the key to go on after."""
        first = items[0][0] if items else position.after
        onward = None if resume is None else self._cursor(resume, backward=position.backward)
        back = None if position.after is None else self._cursor(first, backward=not position.backward)
        shown = [item for _, item in items]
        if position.backward:
            return Page(tuple(reversed(shown)), next_cursor=back, previous_cursor=onward)
        return Page(tuple(shown), next_cursor=onward, previous_cursor=back)

    def _cursor(self, key: Key | None, *, backward: bool) -> str:
        parts = [_written(part) for part in key or ()]
        made = _Cursor(self.kind, _PREVIOUS if backward else _NEXT, parts, self._digest())
        return base64.urlsafe_b64encode(msgspec.json.encode(made)).decode().rstrip("=")

    def _digest(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self.filters)).hexdigest()[:16]


def page_size(value: object) -> int:
    """A page size that is accepted."""
    return options.whole("page_size", value, least=1, most=PAGE_SIZE)


def _read(cursor: object) -> _Cursor | None:
    if not isinstance(cursor, str) or len(cursor) > _LONGEST or not cursor.isascii():
        return None
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(data, type=_Cursor)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        return None


def _written(part: Any) -> str | int:
    if isinstance(part, datetime):
        return part.astimezone(UTC).isoformat()
    assert isinstance(part, str | int)
    return part


def _parsed(parts: Sequence[str | int], types: Sequence[type]) -> Key | None:
    if len(parts) != len(types):
        return None
    key = [_part(part, kind) for part, kind in zip(parts, types, strict=True)]
    return None if None in key else tuple(key)


def _part(part: str | int, kind: type) -> Any:
    if kind is int:
        return part if isinstance(part, int) and 0 <= part < 2**63 else None
    if not isinstance(part, str):
        return None
    if kind is datetime:
        try:
            moment = datetime.fromisoformat(part)
            return moment.astimezone(UTC) if moment.utcoffset() is not None else None
        except (ValueError, OverflowError):
            return None
    try:
        return options.text("cursor", part)
    except InvalidOption:
        return None
