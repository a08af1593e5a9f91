"""What retention promises: what is deleted, purged and archived when, and what is never touched."""

from sloppyjobs.testing.conformance.fixtures import *  # noqa: F403
from sloppyjobs.testing.conformance.retaining import *  # noqa: F403
