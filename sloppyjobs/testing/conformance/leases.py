"""What ``LeasePort`` and ``ClaimPort.sweep`` promise: leases that are kept, those that expire, and due times."""

from sloppyjobs.testing.conformance.fixtures import *  # noqa: F403
from sloppyjobs.testing.conformance.leasing import *  # noqa: F403
from sloppyjobs.testing.conformance.sweeping import *  # noqa: F403
