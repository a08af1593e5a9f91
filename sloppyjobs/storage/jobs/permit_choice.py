"""Which of the jobs that a claim has found may start, with which permits, and which must wait. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from sloppyjobs.domain import limits
from sloppyjobs.domain.limits import Limit, Partition
from sloppyjobs.storage.jobs.lanes import Head


class Wanted(NamedTuple):
    """A job that needs a permit."""

    id: str
    partition: Partition
    place: int
    released: bool
    """Whether it stood in the line before."""


class Held(NamedTuple):
    """The permits of a partition that are taken."""

    slots: set[int]
    by_job: dict[str, int]


class FreeSlots:
    """The free slots of a partition, from a random one on: claims that begin with the lowest would all take the same.

    They are looked for as they are taken, because a limit may be far above what runs.
    """

    def __init__(self, concurrency: int, held: set[int]) -> None:
        # Of a lowered limit, slots above it are held still.
        self.left = max(0, concurrency - len(held))
        self._concurrency = concurrency
        self._held = held
        # Somebody may have written 0 by hand: nothing starts, and no claim breaks.
        self._next = random.randrange(max(1, concurrency))  # noqa: S311

    def take(self) -> int:
        """One of those that are left."""
        while self._next in self._held:
            self._next = (self._next + 1) % self._concurrency
        slot, self._next = self._next, (self._next + 1) % self._concurrency
        self.left -= 1
        return slot


class Room:
    """What a partition has left for a claim, and what the claim has taken of it."""

    def __init__(self, limit: Limit, held: Held, full_at: datetime | None, first_place: int | None, now: datetime):
        self.limit = limit
        self.taken: dict[int, str] = {}
        """The jobs that get permits, by their slots."""
        self.kept: dict[int, str] = {}
        """The jobs that have permits left over from before."""
        self.tokens_taken = 0
        self.refused = False
        self._by_job = held.by_job
        self._free = None if limit.concurrency is None else FreeSlots(limit.concurrency, held.slots)
        self._tokens = limits.tokens(limit, full_at, now)
        self._first_place = first_place

    def admits(self, one: Wanted) -> bool:
        """Whether the job may start; once one may not, none does that comes after it."""
        if self.refused:
            return False
        if self._first_place is not None and self._first_place <= one.place and not one.released:
            # Others wait already, and come first.
            return False
        if self._tokens is not None and self._tokens <= self.tokens_taken:
            return False
        return self._free is None or self._free.left > 0 or one.id in self._by_job

    def give(self, job_id: str) -> None:
        """Take a permit for this job."""
        if self._tokens is not None:
            self.tokens_taken += 1
        left_over = self._by_job.get(job_id)
        if left_over is not None:
            self.kept[left_over] = job_id
        elif self._free is not None:
            self.taken[self._free.take()] = job_id


class Choice:
    """The rooms of the partitions that a claim has met, and the jobs that must wait."""

    def __init__(self, rooms: Mapping[Partition, Room]) -> None:
        self.rooms = rooms
        self.parked: list[str] = []

    def choose(self, heads: Sequence[Head], bound: Mapping[str, Wanted], most: int) -> list[str]:
        """The jobs that may start; whatever else has no permit is parked."""
        chosen: list[str] = []
        for head in heads:
            one = bound.get(head.id)
            room = None if one is None else self.rooms[one.partition]
            if one is not None and room is not None and not room.admits(one):
                self.parked.append(head.id)
                room.refused = True
            elif len(chosen) < most:
                if room is not None:
                    room.give(head.id)
                chosen.append(head.id)
        return chosen

    def taken(self) -> Iterable[tuple[str, str, int, str]]:
        """The permits to take, in the order of their keys."""
        return sorted(
            (*partition, slot, id) for partition, room in self.rooms.items() for slot, id in room.taken.items()
        )

    def kept(self) -> Iterable[tuple[str, str, int, str]]:
        """The permits that jobs have already, in the order of their keys."""
        return sorted(
            (*partition, slot, id) for partition, room in self.rooms.items() for slot, id in room.kept.items()
        )
