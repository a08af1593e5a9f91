"""What schedules promise: occurrences that become one job each, whoever fires them, and their commands."""

from sloppyjobs.testing.conformance.fixtures import *  # noqa: F403
from sloppyjobs.testing.conformance.recurring import *  # noqa: F403
from sloppyjobs.testing.conformance.registering import *  # noqa: F403
from sloppyjobs.testing.conformance.schedule_commands import *  # noqa: F403
from sloppyjobs.testing.conformance.scheduling import *  # noqa: F403
