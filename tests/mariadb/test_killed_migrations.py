"""A process that is killed in the middle of a migration leaves it for the next one to finish."""

from __future__ import annotations

import signal
import sys

import pytest
import warm_start

from sloppyjobs import Jobs, storage
from sloppyjobs.storage.schema import migration_lease
from sloppyjobs.storage.schema.version import VERSION

KILLED = """
import os, signal, sys
from sloppyjobs import storage
from sloppyjobs.storage.schema import migration_lease

migration_lease.SECONDS = 1.0
left, ensure_held = int(sys.argv[2]), migration_lease.MigrationLease.ensure_held

def count_down(lease):
    global left
    ensure_held(lease)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

migration_lease.MigrationLease.ensure_held = count_down
storage.from_url(sys.argv[1]).init()
"""


@pytest.mark.slow
def test_a_migration_that_was_killed_at_several_steps_is_finished(
    empty_mariadb_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migration_lease, "SECONDS", 1.0)
    for steps in (4, 30):
        ran = warm_start.run([sys.executable, "-c", KILLED, empty_mariadb_url, str(steps)], check=False, timeout=120)
        assert ran.returncode == -signal.SIGKILL
    made = storage.from_url(empty_mariadb_url)
    assert made.schema_version() != VERSION
    assert made.init() == VERSION
    assert all(one.status == "ok" for one in made.doctor.diagnose())
    jobs = Jobs(made)
    jobs.define("greet", lambda ctx, payload: "hello")
    job = jobs.enqueue("greet")
    jobs.create_worker().run_once()
    assert jobs.get(job.id).result == "hello"
    made.close()
