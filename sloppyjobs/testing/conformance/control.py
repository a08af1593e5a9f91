"""What stores promise of business keys, replaced jobs, expiry, tags, dependencies, batches and versions."""

from sloppyjobs.testing.conformance.batching import *  # noqa: F403
from sloppyjobs.testing.conformance.business_keys import *  # noqa: F403
from sloppyjobs.testing.conformance.depending import *  # noqa: F403
from sloppyjobs.testing.conformance.expiring import *  # noqa: F403
from sloppyjobs.testing.conformance.fixtures import *  # noqa: F403
from sloppyjobs.testing.conformance.tagging import *  # noqa: F403
from sloppyjobs.testing.conformance.versions import *  # noqa: F403
