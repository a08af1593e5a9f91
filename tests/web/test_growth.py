"""No page asks more of the database because there are more jobs; ``growth.py`` measures the time as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import growth
import pytest

MOST = 14
"""Statements for a page, with those that begin and end its transaction and set its bounds."""


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str, int], growth.Site]]:
    """Pages over so many jobs."""
    made: list[growth.Site] = []

    def make(database: str, count: int) -> growth.Site:
        sqlite = f"sqlite:///{tmp_path / str(count)}.db"
        url: str = sqlite if database == "sqlite" else request.getfixturevalue("postgres_url")
        made.append(growth.Site(growth.filled(url, count)))
        return made[-1]

    yield make
    for one in made:
        one.jobs.storage.close()


def test_what_is_sent_does_not_depend_on_the_number_of_jobs(site: Callable[[str, int], growth.Site]) -> None:
    few, many = site("sqlite", 400), site("sqlite", 8_000)
    for path in growth.PATHS:
        # Counts that stop at their share may go on once, with what others left.
        assert many.sent(path) <= min(MOST, few.sent(path) + 1), path


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_every_page_sends_few_statements_and_reads_jobs_by_an_index(
    database: str, site: Callable[[str, int], growth.Site]
) -> None:
    pages = site(database, 2_000)
    for path in growth.PATHS:
        assert 0 < pages.sent(path) <= MOST, path
        assert "all rows" not in pages.plan(path), (path, pages.plan(path))
    assert any("list" in name for name in pages.plan("/jobs"))


def test_every_statement_is_counted(site: Callable[[str, int], growth.Site]) -> None:
    pages = site("postgres", 100)
    pages.get("/locks")
    with growth.sent(pages.jobs) as statements:
        pages.get("/locks")
    assert len(statements) == 4, statements  # begin, bounds and clock, locks, rollback
