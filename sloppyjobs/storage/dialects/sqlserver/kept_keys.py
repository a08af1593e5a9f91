"""Keys as SQL Server can keep them.

It compares as if there were no spaces at the end of a text, in every collation: a job under the key ``"a "`` would be
found as the holder of ``"a"``, and by a unique index refused beside it. So keys are kept without such spaces, and what
is found under a key has that key. And it counts code units of UTF-16, of which some characters need two.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sloppyjobs.domain import options
from sloppyjobs.domain.model import NewJob, Terms
from sloppyjobs.storage.dialects.sqlserver.schema import LONGEST_KEY

_KEYS = ("idempotency_key", "business_key", "partition_key")
_LONG = ("idempotency_key", "business_key", "correlation_id", "principal")


def without_spaces(key: str) -> str:
    """The key as it is kept."""
    return key.rstrip(" ")


def as_kept(new: Sequence[NewJob]) -> Sequence[NewJob]:
    """These jobs; those with other keys as other ones. ``InvalidOption`` for a key that does not fit."""
    # Jobs of one call mostly share their terms.
    changed = {id(job.terms): kept for job in new if (kept := _kept(job.terms)) is not job.terms}
    if not changed:
        return new
    return [
        msgspec.structs.replace(job, terms=changed[id(job.terms)]) if id(job.terms) in changed else job for job in new
    ]


def _kept(terms: Terms) -> Terms:
    for name in _LONG:
        _refuse_too_long(name, getattr(terms, name))
    values = {name: getattr(terms, name) for name in _KEYS}
    changes = {name: without_spaces(value) for name, value in values.items() if value is not None and value[-1:] == " "}
    if terms.tags is not None and ' "' in terms.tags:
        tags = dict.fromkeys(without_spaces(tag) for tag in msgspec.json.decode(terms.tags, type=list[str]))
        changes["tags"] = msgspec.json.encode(list(tags)).decode()
    return msgspec.structs.replace(terms, **changes) if changes else terms


def _refuse_too_long(option: str, value: str | None) -> None:
    if value is None or value.isascii():
        return
    units = len(value.encode("utf-16-le")) // 2
    if units > LONGEST_KEY:
        raise options.refuse(
            option, value, f"must have at most {LONGEST_KEY} code units of UTF-16 in SQL Server, this has {units}"
        )
