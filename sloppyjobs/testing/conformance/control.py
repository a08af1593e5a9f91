"""What stores promise of business keys, jobs that take the place of others, expiry, tags, dependencies and batches."""

from sloppyjobs.testing.conformance.batching import *  # noqa: F403
from sloppyjobs.testing.conformance.business_keys import *  # noqa: F403
from sloppyjobs.testing.conformance.depending import *  # noqa: F403
from sloppyjobs.testing.conformance.expiring import *  # noqa: F403
from sloppyjobs.testing.conformance.fixtures import *  # noqa: F403
from sloppyjobs.testing.conformance.tagging import *  # noqa: F403
