"""A deploy that somebody else marks between two statements of ours is found, whenever that is."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

from sloppyjobs import Jobs


@pytest.mark.parametrize("database", ["postgres_url", "mariadb_url"])
@pytest.mark.parametrize("after", [1, 2], ids=["after the number was read", "after the latest was read"])
@pytest.mark.parametrize("version", ["119", "120"], ids=["the same version", "another"])
def test_who_comes_second_looks_again(database: str, after: int, version: str, request: pytest.FixtureRequest) -> None:
    first, second = (Jobs(request.getfixturevalue(database)) for _ in range(2))
    first.admin.mark_deploy("118")
    reads: list[str] = []

    def between(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.startswith("SELECT") and "job_deploys" in statement:
            reads.append(statement)
            if len(reads) == after:
                first.admin.mark_deploy(version)

    event.listen(second.storage.engine, "after_cursor_execute", between)
    made = second.admin.mark_deploy("119")
    assert len(reads) > after
    assert made.existing is (version == "119")
    versions = [one.version for one in second.admin.list_deploys()]
    assert versions == (["119", "118"] if made.existing else ["119", "120", "118"])
    assert [one.number for one in second.storage.inspection.deploys()] == list(range(1, len(versions) + 1))
    for jobs in (first, second):
        jobs.storage.close()
