"""What ``SettlePort`` and ``ClaimPort.turn`` promise: what an outcome writes, and that a stale one changes nothing."""

from sloppyjobs.testing.conformance.fencing import *  # noqa: F403
from sloppyjobs.testing.conformance.fixtures import *  # noqa: F403
from sloppyjobs.testing.conformance.outcomes import *  # noqa: F403
from sloppyjobs.testing.conformance.settling import *  # noqa: F403
