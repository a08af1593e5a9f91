"""What the answer of a claim says of jobs that need permits."""

from __future__ import annotations

from typing import Any

from sloppyjobs.domain.followups import Followup
from sloppyjobs.storage.jobs import rows

_PERMIT = int(Followup.PERMIT)
_FOLLOWUPS = rows.CLAIM_FIELDS.index("followups")


def any_limited(answer: Any) -> bool:
    """Whether jobs that need permits are among those that were claimed."""
    result = answer.pgresult
    found = (result.get_value(number, _FOLLOWUPS) for number in range(result.ntuples))
    return any(bits is not None and int.from_bytes(bits, "big") & _PERMIT for bits in found)


def met_limited(answer: Any) -> bool:
    """Whether the claim passed over jobs that need permits."""
    result = answer.pgresult
    return bool(result.ntuples) and result.get_value(result.ntuples - 1, 0) is None
