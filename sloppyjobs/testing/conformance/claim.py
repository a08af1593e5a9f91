"""What ``ClaimPort`` promises of ``claim``: the order, only what may be taken, and each attempt once."""

from sloppyjobs.testing.conformance.claiming import *  # noqa: F403
from sloppyjobs.testing.conformance.fixtures import *  # noqa: F403
