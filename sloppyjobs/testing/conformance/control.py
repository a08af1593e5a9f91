"""What stores promise of keys, replaced jobs, expiry, tags, graphs, batches, steps, limits, patches and versions."""

from sloppyjobs.testing.conformance.ageing import *  # noqa: F403
from sloppyjobs.testing.conformance.alerting import *  # noqa: F403
from sloppyjobs.testing.conformance.batch_commands import *  # noqa: F403
from sloppyjobs.testing.conformance.batching import *  # noqa: F403
from sloppyjobs.testing.conformance.business_keys import *  # noqa: F403
from sloppyjobs.testing.conformance.depending import *  # noqa: F403
from sloppyjobs.testing.conformance.encrypting import *  # noqa: F403
from sloppyjobs.testing.conformance.expiring import *  # noqa: F403
from sloppyjobs.testing.conformance.fixtures import *  # noqa: F403
from sloppyjobs.testing.conformance.flow_lists import *  # noqa: F403
from sloppyjobs.testing.conformance.flowing import *  # noqa: F403
from sloppyjobs.testing.conformance.keeping import *  # noqa: F403
from sloppyjobs.testing.conformance.limiting import *  # noqa: F403
from sloppyjobs.testing.conformance.limiting_more import *  # noqa: F403
from sloppyjobs.testing.conformance.limiting_turns import *  # noqa: F403
from sloppyjobs.testing.conformance.muting import *  # noqa: F403
from sloppyjobs.testing.conformance.patching import *  # noqa: F403
from sloppyjobs.testing.conformance.replacing import *  # noqa: F403
from sloppyjobs.testing.conformance.stepping import *  # noqa: F403
from sloppyjobs.testing.conformance.suspended_commands import *  # noqa: F403
from sloppyjobs.testing.conformance.suspending import *  # noqa: F403
from sloppyjobs.testing.conformance.tagging import *  # noqa: F403
from sloppyjobs.testing.conformance.versions import *  # noqa: F403
