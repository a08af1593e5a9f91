"""One attempt that a worker holds, from claim to settlement."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import msgspec

from sloppyjobs.domain.model import Claim, Settlement
from sloppyjobs.domain.states import Outcome, decide
from sloppyjobs.encryption import PLAIN, Sealing
from sloppyjobs.enqueue.definitions import Definition, Handler
from sloppyjobs.errors import DecryptionFailed
from sloppyjobs.observe import traces
from sloppyjobs.storage.ports.claims import Fence
from sloppyjobs.worker.context import AsyncContext, Context, Reports, Signal

_lock = threading.Lock()


class Task(msgspec.Struct, eq=False, gc=False):
    """An attempt that is held, maybe running, and finished exactly once."""

    claim: Claim
    definition: Definition
    handler: Handler | None
    signal: Signal
    context: Context | AsyncContext
    trace: Mapping[str, str] | None = None
    sealing: Sealing = PLAIN
    unreadable: DecryptionFailed | None = None
    """Why the payload cannot be decrypted."""
    claimed_at: float = msgspec.field(default_factory=time.monotonic)
    started: float | None = None
    grace: float = 0.0
    taken: bool = False
    finished: bool = False

    @classmethod
    def of_claim(
        cls,
        claim: Claim,
        definition: Definition,
        reports: Reports,
        wrap: Callable[[Definition], Handler] | None = None,
        sealing: Sealing = PLAIN,
    ) -> Task:
        """The task of a claim; ``wrap`` makes the handler with everything around it, ``sealing`` decrypts."""
        unreadable = None
        if claim.sealed:
            try:
                claim = sealing.open_claim(claim)
            except DecryptionFailed as error:
                unreadable = error
        trace: Mapping[str, str] | None = None
        if claim.job.metadata and traces.TRACE in claim.job.metadata:
            trace = traces.carrier_in(claim.job.metadata)
            claim = msgspec.structs.replace(claim, job=traces.without_trace(claim.job))
        signal = Signal()
        handler = definition.handler if wrap is None else wrap(definition)
        context = (AsyncContext if definition.isolation == "async" else Context)(claim, signal, reports)
        return cls(claim, definition, handler, signal, context, trace, sealing, unreadable)

    @property
    def fence(self) -> Fence:
        """What a renewal or settlement of this attempt is compared with."""
        return self.claim.job.id, self.claim.attempt

    def begin(self) -> bool:
        """Take the task for execution; False when it has been withdrawn."""
        with _lock:
            if self.taken:
                return False
            self.taken = True
        self.started = time.monotonic()
        return True

    def handler_started(self) -> None:
        """Count the run time from now: the process has been started, and the handler begins."""
        self.started, self.grace = time.monotonic(), 0.0

    def withdraw(self) -> bool:
        """Take the task back before it has started; False when it has."""
        with _lock:
            if self.taken:
                return False
            self.taken = True
        return True

    def finish(self) -> bool:
        """Take the right to settle; False for whoever comes second, such as a handler after its timeout."""
        with _lock:
            if self.finished:
                return False
            self.finished = True
        return True

    def settlement(self, outcome: Outcome) -> Settlement:
        """What an outcome means for the job, and how long the handler ran."""
        seconds, claim = self.run_seconds(), self.claim
        decision = decide(claim.attempt, claim.job.max_attempts, outcome)
        if decision.result is not None and self.sealing.on:
            sealed = self.sealing.seal_result(claim.job.id, decision.result)
            decision = msgspec.structs.replace(decision, result=sealed)
        job = claim.job
        lane = (job.queue, job.name)
        return Settlement(
            job.id, claim.attempt, claim.worker_id, decision, seconds, job.batch_id, claim.followups, lane
        )

    def run_seconds(self) -> float | None:
        """How long the handler has run so far."""
        return None if self.started is None else time.monotonic() - self.started

    def deadline(self) -> float | None:
        """When the handler must have finished, on the monotonic clock; None without a timeout."""
        timeout = self.claim.job.timeout
        if timeout is None:
            return None
        return (self.started if self.started is not None else time.monotonic()) + timeout + self.grace
