"""The parts of the conformance suite that write or read what is encrypted, with encryption on."""

from __future__ import annotations

from typing import Any

import pytest

from sloppyjobs import jobs as jobs_module
from sloppyjobs.encryption import Keyring, Sealing
from sloppyjobs.storage import from_url
from sloppyjobs.testing.conformance.admin_secrets import *  # noqa: F403
from sloppyjobs.testing.conformance.archiving import *  # noqa: F403
from sloppyjobs.testing.conformance.depending import *  # noqa: F403
from sloppyjobs.testing.conformance.fixtures import *  # noqa: F403
from sloppyjobs.testing.conformance.keys import *  # noqa: F403
from sloppyjobs.testing.conformance.patching import *  # noqa: F403
from sloppyjobs.testing.conformance.payloads import *  # noqa: F403
from sloppyjobs.testing.conformance.recurring import *  # noqa: F403
from sloppyjobs.testing.conformance.running import *  # noqa: F403
from sloppyjobs.testing.conformance.scheduling import *  # noqa: F403
from sloppyjobs.testing.conformance.versions import *  # noqa: F403

LOOK_AT_STORED_TEXTS = (
    "test_a_purge_can_move_jobs_to_the_archive_with_their_history",
    "test_a_result_that_cannot_be_kept_is_a_success_all_the_same",
    "test_a_typed_payload_arrives_as_its_type",
    "test_jobs_that_are_alike_are_written_as_if_one_by_one",
    "test_many_are_written_as_one_is",
    "test_many_jobs_are_answered_in_the_command_given",
    "test_progress_and_log_lines_are_kept",
    "test_the_row_of_a_finished_job_keeps_its_payload_for_a_retry",
)
"""Tests that compare what lies in the tables with what was given."""
for name in LOOK_AT_STORED_TEXTS:
    globals().pop(name, None)

KEYRING = Keyring([b"0123456789abcdef0123456789abcdef"])
DATABASES = {"sqlite": "ready_sqlite_url", "postgres": "postgres_url"}


@pytest.fixture(params=DATABASES)
def make_storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes stores; every ``Jobs`` of the test has the keys."""
    monkeypatch.setattr(jobs_module, "Sealing", lambda keyring: Sealing(keyring or KEYRING))
    url = request.getfixturevalue(DATABASES[request.param])
    made = []

    def make(clock: Any = None) -> Any:
        made.append(from_url(url, clock=clock))
        return made[-1]

    yield make
    for store in made:
        store.close()
