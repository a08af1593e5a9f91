"""How far a bulk command is, and the cursor that carries it from one call to the next.

A cursor is a position and a tally, and no more: it carries no right. Each chunk is found, fenced and audited anew.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec

from sloppyjobs.domain import options
from sloppyjobs.storage.ports.operators import Outcome

_LONGEST = 4_000
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Words = Annotated[str, msgspec.Meta(max_length=200)]


class Progress(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """What has been done so far. ``after`` is the key of the last job that was read; None at the beginning."""

    digest: str
    """Of the action and the filter: a cursor is refused with any other."""
    mark: _Number
    """The number that the events of this bulk, and whatever happens besides it, exceed."""
    after: tuple[datetime, _Words] | None = None
    matched: _Number = 0
    done: _Number = 0
    skipped: dict[_Words, _Number] = {}

    def with_chunk(self, outcomes: Sequence[Outcome], after: tuple[Any, ...] | None) -> Progress:
        """The progress after one more chunk."""
        tally = tally_of(outcomes)
        return msgspec.structs.replace(
            self,
            after=after,
            matched=self.matched + len(outcomes),
            done=self.done + tally["done"],
            skipped=dict(sorted((Counter(self.skipped) + Counter(tally["skipped"])).items())),
        )

    def cursor(self) -> str:
        """The text from which ``read_cursor`` makes the same progress."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def digest_of(*parts: Any) -> str:
    """What a cursor belongs to, in short."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:16]


def read_cursor(cursor: object, digest: str) -> Progress:
    """The progress in a cursor; ``InvalidOption`` for one that is damaged or belongs to another command."""
    found = _decoded(cursor)
    if found is None or (found.after is not None and found.after[0].utcoffset() is None):
        raise options.refuse("cursor", cursor, "is damaged; use next_cursor of the call before")
    if found.digest != digest:
        raise options.refuse("cursor", cursor, "belongs to another action, or to this one with another filter")
    return found


def _decoded(cursor: object) -> Progress | None:
    if not isinstance(cursor, str) or len(cursor) > _LONGEST or not cursor.isascii():
        return None
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(data, type=Progress)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        return None


def tally_of(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """How many were done, and how many were skipped for each reason."""
    reasons = [outcome.skipped for outcome in outcomes]
    skipped = Counter(reason for reason in reasons if reason is not None)
    return {"done": len(reasons) - skipped.total(), "skipped": dict(sorted(skipped.items()))}
