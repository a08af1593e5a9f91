"""A bulk call that PostgreSQL gets in several statements is still one call: all or none, and in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError

from sloppyjobs import Jobs
from sloppyjobs.storage.dialects.postgres import bulk_part
from sloppyjobs.storage.jobs import insert as common_insert
from sloppyjobs.storage.schema.tables import Tables

REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF new.payload = '"bad"' THEN RAISE 'refused'; END IF; RETURN new; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON sloppy_jobs FOR EACH ROW EXECUTE FUNCTION refuse();
"""


@pytest.fixture
def jobs(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    """Two jobs in a statement."""
    monkeypatch.setattr(bulk_part, "PART", 2)
    made = Jobs(postgres_url)
    made.init()
    made.declare("greet")
    yield made
    made.storage.close()


def written(jobs: Jobs) -> list[str]:
    """The payloads of the jobs in the order of their creation."""
    c = Tables().jobs.c
    with jobs.storage.engine.connect() as connection:
        return list(connection.execute(select(c.payload).order_by(c.created_at)).scalars())


def test_a_part_that_is_refused_takes_back_those_before_it(jobs: Jobs) -> None:
    with jobs.storage.engine.begin() as connection:
        connection.execute(text(REFUSE))
    items = [("greet", "good", {"tags": ("a",), "business_key": f"key-{n}"}) for n in range(4)]
    for given in ([item[:2] for item in items], items):
        with pytest.raises(DBAPIError, match="refused"):
            jobs.enqueue_many([*given, ("greet", "bad")])
    tables = Tables()
    with jobs.storage.engine.connect() as connection:
        for table in (tables.jobs, tables.events, tables.keys, tables.tags):
            assert connection.execute(select(func.count()).select_from(table)).scalar_one() == 0
    assert len(jobs.enqueue_many(items)) == 4


@pytest.mark.parametrize("options", [{}, {"tags": ("a", "b")}, {"delay": 60}], ids=["plain", "tagged", "delayed"])
def test_jobs_are_created_in_the_order_of_the_call(jobs: Jobs, options: dict[str, object]) -> None:
    told = jobs.enqueue_many([("greet", n, options) for n in range(7)])
    assert written(jobs) == [str(n) for n in range(7)]
    instants = [job.created_at for job in told]
    assert instants == sorted(set(instants))
    assert [jobs.get(job.id) for job in told] == told


def test_a_statement_is_bounded_by_the_length_of_its_payloads(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_part, "PART", 100)
    monkeypatch.setattr(common_insert, "CHUNK_LENGTH", 10)
    texts = ["a" * 20, "b", "c", "d" * 9, "e"]
    told = jobs.enqueue_many([("greet", one) for one in texts])
    assert written(jobs) == [f'"{one}"' for one in texts]
    assert len({job.created_at for job in told}) == len(texts)
