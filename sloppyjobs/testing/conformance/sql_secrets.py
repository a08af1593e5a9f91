"""Redacted keys that are written on the connection of a caller."""

from __future__ import annotations

import pytest
from sqlalchemy.orm import Session

from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.conformance.admin_secrets import CANARY


@pytest.mark.parametrize("savepoint", [False, True], ids=["transaction", "savepoint"])
def test_keys_are_written_again_when_the_transaction_that_wrote_them_is_rolled_back(
    jobs: Jobs, savepoint: bool
) -> None:
    jobs.declare("leaky", redact=("colour",))
    with Session(jobs.storage.engine) as session:
        if savepoint:
            session.connection()
            with session.begin_nested() as undone:
                jobs.enqueue("leaky", {"colour": CANARY}, session=session)
                undone.rollback()
            session.commit()
        else:
            jobs.enqueue("leaky", {"colour": CANARY}, session=session)
            session.rollback()
        assert jobs.storage.redactions.by_name() == {}
        job = jobs.enqueue("leaky", {"colour": CANARY}, session=session)
        session.commit()
    assert CANARY not in repr(Jobs(jobs.storage).admin.get_job(job.id))


def test_keys_are_written_once_by_a_process(jobs: Jobs) -> None:
    jobs.declare("leaky", redact=("colour",))
    with Session(jobs.storage.engine) as session:
        jobs.enqueue("leaky", session=session)
        assert not jobs.storage.redactions.written
        session.commit()
    assert jobs.storage.redactions.written == {("leaky", "colour")}
    jobs.declare("other", redact=("flavour", "colour"))
    jobs.enqueue("leaky")
    assert jobs.storage.redactions.written == jobs.definitions.redactions
    assert jobs.storage.redactions.by_name() == {"leaky": ("colour",), "other": ("colour", "flavour")}
