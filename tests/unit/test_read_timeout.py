"""A read that takes too long is given up by the database and named as such."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from sloppyjobs import errors, storage


def test_a_statement_that_the_database_cancels_is_a_read_timeout(postgres_url: str) -> None:
    store = storage.postgres(postgres_url)

    def slow(connection: object) -> None:
        bounded = store.database.bounded(connection)  # type: ignore[arg-type]
        assert bounded.execute(text("SELECT current_setting('statement_timeout')")).scalar_one() == "3s"
        bounded.execute(text("SET LOCAL statement_timeout = 50"))
        bounded.execute(text("SELECT pg_sleep(5)"))

    with pytest.raises(errors.ReadTimeout, match="narrow the filters"):
        store.database.read(slow)
    assert (
        store.database.read(lambda c: c.execute(text("SELECT current_setting('statement_timeout')")).scalar_one())
        == "0"
    )
    store.close()
