"""New jobs, and the events of their creation, as the rows of binary COPYs.

A row is the number of its fields, and before each field its length. Jobs that are enqueued together are mostly alike:
the fields in which they differ come first, and the others are written once and repeated. Columns that none of the jobs
fills are left out, for the server takes its time to read that there is nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import repeat
from struct import Struct

from sloppyjobs.domain.states import INITIAL, Status
from sloppyjobs.storage.dialects.postgres.arrays import fields, microseconds
from sloppyjobs.storage.jobs.new_rows import CREATED_EVENT, NewRows
from sloppyjobs.storage.schema.columns import JOB_COLUMNS, New, inserted

BEGINNING = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
ENDING = b"\xff\xff"
SLICE = 250
"""Rows that are sent at once: the server writes them while the next are made."""

_KIND = {column.name: column.kind for column in JOB_COLUMNS}
_NAMES = {new: [column.name for column in inserted(JOB_COLUMNS) if column.new is new] for new in New}
_FIRST = (*_NAMES[New.ID], *_NAMES[New.RUN_AT], *_NAMES[New.NOW], *_NAMES[New.PAYLOAD])


class CopiedRows:
    """The rows of new jobs, the columns that they have, and the rows of their first events."""

    def __init__(self, rows: NewRows, encoding: str) -> None:
        self._encoding = encoding
        self._ids = [job_id.encode(encoding) for job_id in rows.ids]
        self._payloads = [payload.encode(encoding) for payload in rows.payloads]
        self._created = [microseconds(rows.created[0]) + place for place in _steps(rows)]
        self._run_at = self._created if rows.due_now else [microseconds(instant) for instant in rows.run_at]
        self._statuses = rows.statuses
        own, shared = dict(rows.own), {name: value for name, value in rows.shared.items() if value is not None}
        shared |= dict.fromkeys(_NAMES[New.ZERO], 0)
        if rows.due_now:
            shared |= dict.fromkeys(_NAMES[New.STATUS], Status.QUEUED.value)
        else:
            own |= {name: [status.value for status in rows.statuses] for name in _NAMES[New.STATUS]}
        self._own = {name: fields(_KIND[name], values, encoding) for name, values in own.items()}
        self._rest = b"".join(fields(_KIND[name], [value], encoding)[0] for name, value in shared.items())
        self.columns = (*_FIRST, *own, *shared)

    def jobs(self) -> Iterator[bytes]:
        """The jobs, slice by slice."""
        yield BEGINNING
        number, instants = len(self.columns), len(_NAMES[New.RUN_AT]) + len(_NAMES[New.NOW])
        assert instants == 3, "a row begins with its id and three instants"
        parts: list[bytes] = []
        own = list(map(b"".join, zip(*self._own.values(), strict=True))) if self._own else repeat(b"")
        given = zip(self._ids, self._run_at, self._created, self._payloads, own, strict=False)
        for place, (name, run_at, created, payload, different) in enumerate(given, start=1):
            begin = _beginning(len(name))(number, len(name), name, 8, run_at, 8, created, 8, created, len(payload))
            parts += (begin, payload, different, self._rest)
            if place % SLICE == 0:
                yield b"".join(parts)
                parts = []
        parts.append(ENDING)
        yield b"".join(parts)

    def events(self) -> bytes:
        """What happened to the jobs: they were created."""
        words = {status: fields(_KIND["status"], ["created", status.value], self._encoding) for status in INITIAL}
        rest = {status: b"".join(both) for status, both in words.items()}
        parts = [BEGINNING]
        for name, created, status in zip(self._ids, self._created, self._statuses, strict=True):
            begin = _event_beginning(len(name))
            parts += (begin(len(CREATED_EVENT), len(name), name, 8, created), rest[status])
        parts.append(ENDING)
        return b"".join(parts)


def _steps(rows: NewRows) -> Sequence[int]:
    """The microseconds after which each of the rows is created."""
    number = len(rows.ids)
    step = 0 if number == 1 else microseconds(rows.created[1]) - microseconds(rows.created[0])
    return [place * step for place in range(number)]


@cache
def _beginning(id_length: int) -> Callable[..., bytes]:
    """Packs a row up to its payload."""
    return Struct(f">hi{id_length}siqiqiqi").pack


@cache
def _event_beginning(id_length: int) -> Callable[..., bytes]:
    """Packs an event's row up to its instant."""
    return Struct(f">hi{id_length}siq").pack
