"""What ``EnqueuePort`` and ``ReadPort`` promise: what is written, keys, and what is refused before anything is.

``ClaimPort`` and ``SettlePort`` are asked to see that what was enqueued arrives.
"""

from sloppyjobs.testing.conformance.enqueueing import *  # noqa: F403
from sloppyjobs.testing.conformance.fixtures import *  # noqa: F403
from sloppyjobs.testing.conformance.keys import *  # noqa: F403
from sloppyjobs.testing.conformance.refusals import *  # noqa: F403
