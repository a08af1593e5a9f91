"""The suite that every storage must pass, for pytest, divided by what a store implements.

Give it a fixture ``make_storage`` that returns a function ``(clock=None) -> storage`` over an empty, initialised
store, and import everything from here into a test module, or only the parts for the ports that the store has::

    from sloppyjobs.testing.conformance.enqueue import *
    from sloppyjobs.testing.conformance.claim import *

The parts are ``enqueue``, ``claim``, ``settle``, ``leases``, ``run``, ``locks``, ``schedules``, ``admin``,
``retention``, ``control``, and ``sql`` for databases of SQLAlchemy. Apart from ``sql`` they ask only ``Jobs``,
``jobs.admin``, the ports, and the store's ``inspection``. After each test the events of every job are folded and
compared with its row.
"""

from sloppyjobs.testing.conformance.admin import *  # noqa: F403
from sloppyjobs.testing.conformance.claim import *  # noqa: F403
from sloppyjobs.testing.conformance.control import *  # noqa: F403
from sloppyjobs.testing.conformance.enqueue import *  # noqa: F403
from sloppyjobs.testing.conformance.leases import *  # noqa: F403
from sloppyjobs.testing.conformance.locks import *  # noqa: F403
from sloppyjobs.testing.conformance.retention import *  # noqa: F403
from sloppyjobs.testing.conformance.run import *  # noqa: F403
from sloppyjobs.testing.conformance.schedules import *  # noqa: F403
from sloppyjobs.testing.conformance.settle import *  # noqa: F403
from sloppyjobs.testing.conformance.sql import *  # noqa: F403
