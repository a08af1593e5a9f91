"""One attempt in a worker's hands, from claim to settlement."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import msgspec

from sloppyjobs.domain.model import Claim
from sloppyjobs.enqueue.definitions import Definition, Handler
from sloppyjobs.observe import traces
from sloppyjobs.storage.ports.claims import Fence
from sloppyjobs.worker.context import Context, Reports, Signal

_taking = threading.Lock()


class Task(msgspec.Struct, eq=False, gc=False):
    """An attempt that is held, maybe running, and finished exactly once."""

    claim: Claim
    definition: Definition
    handler: Handler | None
    signal: Signal
    context: Context
    trace: Mapping[str, str] | None = None
    held_since: float = msgspec.field(default_factory=time.monotonic)
    started: float | None = None
    grace: float = 0.0
    taken: bool = False
    finished: bool = False

    @classmethod
    def hold(cls, claim: Claim, definition: Definition, reports: Reports) -> Task:
        """The task of a claim."""
        trace: Mapping[str, str] | None = None
        if claim.job.metadata and traces.TRACE in claim.job.metadata:
            trace = traces.carried(claim.job.metadata)
            claim = msgspec.structs.replace(claim, job=traces.without_trace(claim.job))
        signal = Signal()
        return cls(claim, definition, definition.handler, signal, Context(claim, signal, reports), trace)

    @property
    def fence(self) -> Fence:
        """What a renewal or settlement of this attempt is compared with."""
        return self.claim.job.id, self.claim.attempt

    def begin(self) -> bool:
        """Take the task for execution; False when it has been withdrawn."""
        with _taking:
            if self.taken:
                return False
            self.taken = True
        self.started = time.monotonic()
        return True

    def begin_anew(self) -> None:
        """The handler begins only now, after all that had to be done before it."""
        self.started, self.grace = time.monotonic(), 0.0

    def withdraw(self) -> bool:
        """Take the task back before it has started; False when it has."""
        with _taking:
            if self.taken:
                return False
            self.taken = True
        return True

    def finish(self) -> bool:
        """Claim the right to settle; False for whoever comes second, such as a handler after its timeout."""
        with _taking:
            if self.finished:
                return False
            self.finished = True
        return True

    def run_seconds(self) -> float | None:
        """How long the handler has run so far."""
        return None if self.started is None else time.monotonic() - self.started

    def deadline(self) -> float | None:
        """When the handler must have finished, on the monotonic clock; None without a timeout."""
        timeout = self.claim.job.timeout
        if timeout is None:
            return None
        return (self.started if self.started is not None else time.monotonic()) + timeout + self.grace
