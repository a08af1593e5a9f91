"""What a worker needs of all the ports of jobs, of ``LogPort`` and of ``WorkerPort``: handlers and retries."""

from sloppyjobs.testing.conformance.fixtures import *  # noqa: F403
from sloppyjobs.testing.conformance.payloads import *  # noqa: F403
from sloppyjobs.testing.conformance.retrying import *  # noqa: F403
from sloppyjobs.testing.conformance.returning import *  # noqa: F403
from sloppyjobs.testing.conformance.running import *  # noqa: F403
