"""The admin service, by what an operator does with it."""

from sloppyjobs.testing.conformance.admin_commands import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_explains import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_lists import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_secrets import *  # noqa: F403
from sloppyjobs.testing.conformance.admin_summaries import *  # noqa: F403
