"""What stores promise of business keys, of jobs that take the place of others, of expiry, tags and graphs."""

from sloppyjobs.testing.conformance.business_keys import *  # noqa: F403
from sloppyjobs.testing.conformance.depending import *  # noqa: F403
from sloppyjobs.testing.conformance.expiring import *  # noqa: F403
from sloppyjobs.testing.conformance.fixtures import *  # noqa: F403
from sloppyjobs.testing.conformance.flowing import *  # noqa: F403
from sloppyjobs.testing.conformance.tagging import *  # noqa: F403
