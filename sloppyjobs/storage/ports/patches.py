"""Payloads that are changed in their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from sloppyjobs.domain.states import Status
from sloppyjobs.storage.ports.operators import Command


class StoredPayload(NamedTuple):
    """A job whose payload is to be changed, under its row's lock; the payload as it is stored."""

    job_id: str
    name: str
    queue: str
    status: Status
    payload: str
    payload_version: int | None


class NewPayload(NamedTuple):
    """What takes the payload's place, as it is stored, and the keys that differ."""

    payload: str
    keys: Sequence[str]


DecidePayload = Callable[[StoredPayload], NewPayload | None]
"""What a patch makes of a payload; None where that is no change. Raises where it is refused."""


class PayloadPort(Protocol):
    """Changes of payloads; a store has it as ``payloads``."""

    def replace(self, job_id: str, decide: DecidePayload, command: Command) -> bool:
        """Write another payload, with its audit entry, if the job is still as ``decide`` saw it.

        False where nothing changes, and then nothing is written. ``UnknownJob`` where there is no such job.
        """
        ...
