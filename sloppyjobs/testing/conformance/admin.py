"""What ``jobs.admin`` promises over a store: the admin service, by what an operator does with it."""

from sloppyjobs.testing.conformance.admin_attention import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_bulk import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_causes import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_commands import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_explains import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_job_types import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_lists import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_places import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_secrets import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_summaries import *  # noqa: F403
from sloppyjobs.testing.conformance.deploying import *  # noqa: F403
from sloppyjobs.testing.conformance.fixtures import *  # noqa: F403
from sloppyjobs.testing.conformance.scheduling import *  # noqa: F403
