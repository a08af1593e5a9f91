"""A worker's turns: it settles on one connection while it claims on another, and the server works on both at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from threading import Event
from typing import Any, Generic, TypeVar

from sloppyjobs.domain.model import Claim, Settlement
from sloppyjobs.storage.ports.claims import ClaimRequest, WithoutChildren

T = TypeVar("T")

START_SECONDS = 0.01
"""For how long to wait for a thread to start, which a busy machine may not let it."""


class _Call(Generic[T]):
    """A call in another thread. One that has failed is made again when its answer is asked for the next time."""

    def __init__(self, threads: ThreadPoolExecutor, work: Callable[..., T], *arguments: Any) -> None:
        self._threads = threads
        self._work, self._arguments = work, arguments
        self._future: Future[T] | None = self._sent()

    def answer(self) -> T:
        """Wait for it."""
        future, self._future = self._future or self._sent(), None
        answer = future.result()
        self._future = future
        return answer

    def _sent(self) -> Future[T]:
        # In the caller's context, which says how long to wait for the database.
        started = Event()
        future = self._threads.submit(copy_context().run, self._begin, started)
        # The thread has the interpreter until its statement is sent: what the caller does next would keep it waiting.
        started.wait(START_SECONDS)
        return future

    def _begin(self, started: Event) -> T:
        started.set()
        return self._work(*self._arguments)


class SideBySideTurns(WithoutChildren):
    """A settlement and a claim, each in a transaction and a thread of its own."""

    promotes = False

    def __init__(
        self, settle: Callable[[Sequence[Settlement]], set[str]], claim: Callable[[ClaimRequest], Sequence[Claim]]
    ) -> None:
        self._settle, self._claim = settle, claim
        self._threads = ThreadPoolExecutor(2, "sloppyjobs-turn")
        self._settling: _Call[set[str]] | None = None
        self._claiming: _Call[Sequence[Claim]] | None = None

    def begin_settle(self, settlements: Sequence[Settlement], children: ClaimRequest | None = None) -> None:  # noqa: ARG002
        """Settle these; they belong to one worker."""
        self._settling = _Call(self._threads, self._settle, settlements)

    def begin_claim(self, request: ClaimRequest) -> None:
        """Claim as asked for."""
        self._claiming = _Call(self._threads, self._claim, request)

    def settled(self) -> set[str]:
        """Wait for the settlement; the ids that were accepted."""
        return set() if self._settling is None else self._settling.answer()

    def claimed(self) -> Sequence[Claim]:
        """Wait for the claim."""
        return () if self._claiming is None else self._claiming.answer()

    def close(self) -> None:
        """Wait for what is under way, whatever comes of it."""
        self._threads.shutdown(wait=True)
