"""Commands that were begun, and that workers carry on: retries of causes of death, commands on whole batches."""

from __future__ import annotations

from sloppyjobs.admin.batches import advance_batches
from sloppyjobs.admin.dead_groups import advance_retry_runs
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.storage.ports import Store


def advance_commands(storage: Store, definitions: Definitions) -> int:
    """Do what is due of all of them; how many jobs were moved. Safe from anywhere, at any time."""
    return advance_retry_runs(storage, definitions) + advance_batches(storage, definitions)
