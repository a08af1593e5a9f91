"""What retention promises: what is deleted, purged and archived when, what is never touched, and what is restored."""

from sloppyjobs.testing.conformance.archiving import *  # noqa: F403
from sloppyjobs.testing.conformance.fixtures import *  # noqa: F403
from sloppyjobs.testing.conformance.retaining import *  # noqa: F403
