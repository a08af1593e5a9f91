"""Jobs that are not to be run late. Pure."""

from __future__ import annotations

from sloppyjobs.domain.model import Claim
from sloppyjobs.domain.states import Failure
from sloppyjobs.errors import Expired

EXPIRED = Failure(Expired.code, "it had not started when it expired", type="sloppyjobs.errors.Expired")
"""Why such a job was cancelled."""


def expired(claim: Claim) -> bool:
    """Whether the job of this first attempt had expired when it was claimed; once it has started it goes on."""
    until = claim.job.expires_at
    return until is not None and claim.attempt == 1 and until <= claim.job.updated_at
