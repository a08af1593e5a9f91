"""The claim protocol, for workers written by others: claim, heartbeat, complete or fail."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sloppyjobs.domain import failures, options, payload
from sloppyjobs.domain.failures import EXPIRED
from sloppyjobs.domain.model import Claim, Ended, Settlement
from sloppyjobs.domain.states import Cancelled, Failed, Outcome, Succeeded, decide
from sloppyjobs.encryption import Sealing
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.enqueue.option_types import Duration
from sloppyjobs.errors import DecryptionFailed
from sloppyjobs.internals import HasInternals
from sloppyjobs.observe import traces
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.claims import ClaimRequest

if TYPE_CHECKING:
    from sloppyjobs.worker.observe.settlement_hooks import SettlementHooks

CLAIM_LIMIT = 500
"""Jobs that one call claims at most."""


class ClaimProtocol(HasInternals):
    """What ``Jobs`` offers to workers written by others."""

    definitions: Definitions
    _payload_limit: int

    @property
    def storage(self) -> Store:
        """Where the jobs are kept."""
        raise NotImplementedError

    @property
    def _sealing(self) -> Sealing:
        raise NotImplementedError

    def claim(
        self,
        worker_id: str,
        queues: Iterable[str] = ("default",),
        names: Iterable[str] | None = None,
        limit: int = 1,
        lease: Duration = 30,
    ) -> list[Claim]:
        """Take up to ``limit`` due jobs for ``lease`` seconds; an empty list when none is due.

        One whose row somebody else has locked at that moment is passed over, and found by the next call. Damaged ones
        die, as do those that cannot be decrypted, and those that have expired are cancelled.
        """
        request = ClaimRequest(
            options.text("worker_id", worker_id),
            options.names("queues", queues),
            None if names is None else frozenset(options.names("names", names)),
            options.whole("limit", limit, least=1, most=CLAIM_LIMIT),
            options.seconds("lease", lease, zero=False),
        )
        lost = self.storage.sweep().lost
        if lost:
            self._settlement_hooks().lost(lost, wait=True)
        # Retried where all were damaged or had expired: an empty list would say that nothing is due.
        while claims := self.storage.claim(request):
            for claim in claims:
                if claim.job.damage is not None:
                    self._settle(claim, Failed(failures.from_damage(claim.job.damage), 0.0, retryable=False))
                elif claim.expired:
                    self._settle(claim, Cancelled(EXPIRED.message, EXPIRED))
            whole = [claim for claim in claims if claim.job.damage is None and not claim.expired]
            if readable := [opened for claim in whole if (opened := self._opened(claim)) is not None]:
                return readable
        return []

    def _opened(self, claim: Claim) -> Claim | None:
        """The claim with its payload; None where that cannot be decrypted, and then the job is dead."""
        try:
            return self._sealing.open_claim(claim)
        except DecryptionFailed as error:
            self._settle(claim, Failed(failures.from_exception(error), 0.0, retryable=False))
            return None

    def heartbeat(self, claim: Claim, lease: Duration | None = None) -> bool:
        """Prolong the claim's lease from now, by default for as long as it was claimed; False when it is lost."""
        _check(claim)
        return self.extend(claim, claim.locked_until - claim.job.updated_at if lease is None else lease)

    def extend(self, claim: Claim, seconds: Duration) -> bool:
        """Prolong the claim's lease to ``seconds`` from now; False when it is not ours any more."""
        _check(claim)
        until = options.seconds("seconds", seconds, zero=False)
        return bool(self.storage.renew(claim.worker_id, [(claim.id, claim.attempt)], until))

    def complete(self, claim: Claim, result: Any = None) -> bool:
        """Settle the claim as succeeded; False when it was stale, and then nothing has changed.

        After a call that raised because the database was not reached, call again: if the first one was committed, the
        second is True, which distinguishes it from a stale one. The same holds for ``fail``.
        """
        _check(claim)
        text = None if result is None else payload.encode(result, limit=self._payload_limit, what="result")
        return self._settle(claim, Succeeded(self._sealing.seal_result(claim.id, text)))

    def fail(self, claim: Claim, error: BaseException | str, retry_after: Duration | None = None) -> bool:
        """Settle the claim as failed: retried by the job's policy, or dead; False when it was stale."""
        _check(claim)
        policy = claim.retry
        if isinstance(error, BaseException):
            failure, retryable = failures.from_exception(error), policy.retries(error)
        else:
            failure, retryable = failures.from_text(error), True
        delay = policy.delay(claim.attempt, random.random()) if retry_after is None else None  # noqa: S311
        after = options.seconds("retry_after", retry_after) if delay is None else delay
        return self._settle(claim, Failed(failure, after, retryable))

    def _settle(self, claim: Claim, outcome: Outcome) -> bool:
        decision = decide(claim.attempt, claim.job.max_attempts, outcome)
        settlement = Settlement(
            claim.id, claim.attempt, claim.worker_id, decision, None, claim.job.batch_id, claim.followups
        )
        accepted = claim.id in self.storage.settle([settlement])
        if accepted:
            self._settlement_hooks().settled([Ended(traces.without_trace(claim.job), settlement)], wait=True)
        return accepted

    def _settlement_hooks(self) -> SettlementHooks:
        from sloppyjobs.worker.observe.settlement_hooks import SettlementHooks  # noqa: PLC0415 - producers never need it

        return SettlementHooks(self._internals.hooks, self.storage, self.definitions)


def _check(claim: object) -> None:
    if not isinstance(claim, Claim):
        raise options.refuse("claim", claim, "must be a claim, as claim() or Claim.from_json() gives it")
