"""Steps, sleeps and signals of handlers: what workers write, what others send, and what pages show."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple, Protocol

from sloppyjobs.domain.steps import Answer, Kept, StepKind, StepState
from sloppyjobs.storage.ports.claims import Fence
from sloppyjobs.storage.ports.operators import Command


class StepRow(NamedTuple):
    """A step, a sleep or a signal of a job; ``result`` is JSON, and None where it is longer than what is shown."""

    kind: StepKind
    name: str
    state: StepState
    attempt_number: int
    place: int
    """Its number in the order in which the handler came to them; 0 for a signal that nobody has asked for."""
    created_at: datetime
    finished_at: datetime | None
    wake_at: datetime | None
    """When a sleep is over, or when a signal is not waited for any more."""
    run_seconds: float | None
    size: int
    """Bytes of the result."""
    result: str | None


class SentSignal(NamedTuple):
    """A signal on its way to a job; ``token`` tells it from every other one, ``value`` is JSON."""

    name: str
    value: str
    token: str


class StepPort(Protocol):
    """What a running handler keeps, fenced. A store has it as ``steps``."""

    def known(self, job_id: str) -> list[Kept]:
        """What a job has, in the order of its steps."""
        ...

    def keep(self, worker_id: str, fence: Fence, name: str, result: str, seconds: float | None, place: int) -> bool:
        """Write the result of a finished step; False when the attempt is not the worker's any more."""
        ...

    def ask(
        self, worker_id: str, fence: Fence, kind: StepKind, name: str, seconds: float | None, place: int
    ) -> Answer | None:
        """Begin a sleep or a wait, or see what has become of it; None when the attempt is not the worker's any more.

        ``seconds`` is how long a sleep is, or how long a signal is waited for; it counts for the first to ask.
        """
        ...


class SignalPort(Protocol):
    """Signals to jobs; a store has it as ``signals``."""

    def send(
        self,
        job_id: str,
        signal: SentSignal,
        command: Command | None = None,
        connection: Any | None = None,
    ) -> bool:
        """Give a job a signal; False where it has one of this name. With a command it is written to the audit trail.

        With a connection it is sent in the caller's transaction, and the caller can go on after a refusal.
        ``UnknownJob`` where there is no such job, ``InvalidTransition`` where it has finished, ``InvalidStep`` where it
        has too many.
        """
        ...

    def job_with_key(self, business_key: str, connection: Any | None = None) -> str:
        """The id of the live job with a business key, else of the latest one; ``UnknownJob`` where there is none."""
        ...
