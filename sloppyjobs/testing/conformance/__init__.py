"""The suite that every storage must pass, for pytest.

Give it a fixture ``make_storage`` that returns a function ``(clock=None) -> storage`` over an empty, initialised
database, and import everything from here into a test module::

    from sloppyjobs.testing.conformance import *
"""

from sloppyjobs.testing.conformance.admin import *  # noqa: F403
from sloppyjobs.testing.conformance.claiming import *  # noqa: F403
from sloppyjobs.testing.conformance.damaged import *  # noqa: F403
from sloppyjobs.testing.conformance.enqueueing import *  # noqa: F403
from sloppyjobs.testing.conformance.fencing import *  # noqa: F403
from sloppyjobs.testing.conformance.fixtures import clock as clock
from sloppyjobs.testing.conformance.fixtures import jobs as jobs
from sloppyjobs.testing.conformance.fixtures import live_jobs as live_jobs
from sloppyjobs.testing.conformance.keys import *  # noqa: F403
from sloppyjobs.testing.conformance.locking import *  # noqa: F403
from sloppyjobs.testing.conformance.outcomes import settle as settle
from sloppyjobs.testing.conformance.payloads import *  # noqa: F403
from sloppyjobs.testing.conformance.recurring import *  # noqa: F403
from sloppyjobs.testing.conformance.refusals import *  # noqa: F403
from sloppyjobs.testing.conformance.registering import *  # noqa: F403
from sloppyjobs.testing.conformance.retention import *  # noqa: F403
from sloppyjobs.testing.conformance.retrying import *  # noqa: F403
from sloppyjobs.testing.conformance.running import *  # noqa: F403
from sloppyjobs.testing.conformance.schedule_commands import *  # noqa: F403
from sloppyjobs.testing.conformance.schedules import scheduler as scheduler
from sloppyjobs.testing.conformance.schema import *  # noqa: F403
from sloppyjobs.testing.conformance.settling import *  # noqa: F403
from sloppyjobs.testing.conformance.sweeping import *  # noqa: F403
from sloppyjobs.testing.conformance.transactions import *  # noqa: F403
