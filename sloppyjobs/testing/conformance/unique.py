"""What stores promise of business keys, and of jobs that take the place of others."""

from sloppyjobs.testing.conformance.business_keys import *  # noqa: F403
from sloppyjobs.testing.conformance.fixtures import *  # noqa: F403
