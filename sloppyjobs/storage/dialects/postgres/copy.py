"""New jobs, and the events of their creation, as the rows of binary COPYs.

A row is the number of its fields, and before each field its length. Jobs that are enqueued together are mostly alike:
the fields in which they differ come first, and the others are written once and repeated. Columns that none of the jobs
fills are left out, for the server takes its time to read that there is nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import chain, repeat
from struct import Struct

from sloppyjobs.domain.states import INITIAL, Status
from sloppyjobs.storage.dialects.postgres.arrays import encoded, fields, lengths, microseconds, moments
from sloppyjobs.storage.jobs.new_rows import CREATED_EVENT, NewRows
from sloppyjobs.storage.schema.columns import JOB_COLUMNS, New, inserted

BEGINNING = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
ENDING = b"\xff\xff"
SLICE = 250
"""Rows that are sent at once: the server writes them while the next are made."""

_COUNT = Struct(">h").pack
_INSTANT = Struct(">iq").pack
_INSTANTS = Struct(">iqiqiqi").pack
"""The three instants of a job, each with its length, and the length of what follows."""
_KIND = {column.name: column.kind for column in JOB_COLUMNS}
_NAMES = {new: [column.name for column in inserted(JOB_COLUMNS) if column.new is new] for new in New}
_FIRST = (*_NAMES[New.ID], *_NAMES[New.RUN_AT], *_NAMES[New.NOW], *_NAMES[New.PAYLOAD])
assert len(_FIRST) == 5, "a row begins with its id, three instants and its payload"


class CopiedRows:
    """The rows of new jobs, the columns that they have, and the rows of their first events."""

    def __init__(self, rows: NewRows, encoding: str) -> None:
        self._rows = rows
        self._encoding = encoding
        own, shared = dict(rows.own), {name: value for name, value in rows.shared.items() if value is not None}
        shared |= dict.fromkeys(_NAMES[New.ZERO], 0)
        if rows.due_now:
            shared |= dict.fromkeys(_NAMES[New.STATUS], Status.QUEUED.value)
        else:
            own |= {name: [status.value for status in rows.statuses] for name in _NAMES[New.STATUS]}
        self._own = own
        self._rest = b"".join(fields(_KIND[name], [value], encoding)[0] for name, value in shared.items())
        self.columns = (*_FIRST, *own, *shared)

    def jobs(self) -> Iterator[bytes]:
        """The jobs, slice by slice."""
        rows, number = self._rows, _COUNT(len(self.columns))
        yield BEGINNING
        for start in range(0, len(rows.ids), SLICE):
            part = slice(start, start + SLICE)
            ids, payloads = encoded(rows.ids[part], self._encoding), encoded(rows.payloads[part], self._encoding)
            created = self._created(part)
            due = created if rows.due_now else map(microseconds, rows.run_at[part])
            instants = map(_INSTANTS, repeat(8), due, repeat(8), created, repeat(8), created, map(len, payloads))
            own = (fields(_KIND[name], values[part], self._encoding) for name, values in self._own.items())
            yield _joined(repeat(number), lengths(ids), ids, instants, payloads, *own, repeat(self._rest))
        yield ENDING

    def events(self) -> Iterator[bytes]:
        """What happened to the jobs, slice by slice: they were created."""
        rows, number = self._rows, _COUNT(len(CREATED_EVENT))
        words = {status: fields(_KIND["status"], ["created", status.value], self._encoding) for status in INITIAL}
        rest = {status: b"".join(both) for status, both in words.items()}
        yield BEGINNING
        for start in range(0, len(rows.ids), SLICE):
            part = slice(start, start + SLICE)
            ids = encoded(rows.ids[part], self._encoding)
            created = map(_INSTANT, repeat(8), self._created(part))
            yield _joined(repeat(number), lengths(ids), ids, created, map(rest.__getitem__, rows.statuses[part]))
        yield ENDING

    def _created(self, part: slice) -> list[int]:
        """When the jobs of a slice are created, in microseconds."""
        created = self._rows.created[part]
        step = timedelta(0) if len(created) == 1 else created[1] - created[0]
        return list(moments(created[0], step, len(created)))


def _joined(*columns: Iterable[bytes]) -> bytes:
    """Rows from columns; some repeat the same value for ever."""
    return b"".join(chain.from_iterable(zip(*columns, strict=False)))
