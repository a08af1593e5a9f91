"""A primary, a standby and a promotion, without load; ``make cluster`` has the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.ports import free_ports
from cluster.postgres import Server, url_of
from sloppyjobs import Jobs

pytestmark = pytest.mark.slow


def test_what_was_acknowledged_is_there_when_the_primary_is_killed(server_folder: Path) -> None:
    first_port, second_port = free_ports(2)
    first, second = Server(server_folder, "first", first_port), Server(server_folder, "second", second_port)
    try:
        first.create()
        second.follow(first)
        jobs = Jobs(url_of(first, second))
        jobs.init()
        jobs.declare("greet")
        written = jobs.enqueue_many([("greet", number) for number in range(50)])
        first.kill()
        second.promote()
        assert jobs.enqueue("greet").status == "queued"
        for job in written:
            assert jobs.get(job.id).status == "queued"
        jobs.storage.close()
    finally:
        first.kill()
        second.kill()
