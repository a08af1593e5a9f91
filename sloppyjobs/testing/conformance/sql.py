"""What only a SQL database can promise: transactions of the caller, damaged rows, the schema, bounds and row locks.

These tests use SQLAlchemy, and the engine and the tables of the store.
"""

from sloppyjobs.testing.conformance.fixtures import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_batches import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_bounds import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_damage import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_damaged_words import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_dependencies import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_enqueueing import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_limits import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_retention import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_schema import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_secrets import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_signals import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_statements import *  # noqa: F403
from sloppyjobs.testing.conformance.sql_transactions import *  # noqa: F403
