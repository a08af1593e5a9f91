"""What ``LockPort`` promises: one holder at a time, until it releases the lock or its time is up."""

from sloppyjobs.testing.conformance.fixtures import *  # noqa: F403
from sloppyjobs.testing.conformance.locking import *  # noqa: F403
