"""The UI over a database that can only be read, such as a replica: pages work, and commands say why they do not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hosts import Client, make_app

from sloppyjobs import NO_RETRY, Jobs


@pytest.fixture
def primary(postgres_url: str) -> Iterator[Jobs]:
    made = Jobs(postgres_url)

    def fail(_ctx: object, _payload: object) -> None:
        raise LookupError("no such item")

    made.define("pack", fail, retry=NO_RETRY)
    made.recurring("nightly", "pack", cron="0 2 * * *")
    made.enqueue("pack")
    made.create_worker().run_once()
    made.enqueue("pack")
    yield made
    made.storage.close()


@pytest.fixture
def replica(postgres_url: str) -> Iterator[Client]:
    joined = "&" if "?" in postgres_url else "?"
    made = Jobs(f"{postgres_url}{joined}options=-c%20default_transaction_read_only%3Don")
    yield Client(make_app(made).test_client())
    made.storage.close()


def test_every_page_can_be_read(primary: Jobs, replica: Client) -> None:
    (dead,) = primary.admin.list_jobs("dead")
    pages = (
        "/",
        "/jobs",
        f"/jobs/{dead.id}",
        "/dead",
        "/queues",
        "/queues/default",
        "/recurring",
        "/recurring/nightly",
    )
    for page in (*pages, "/workers", "/locks", "/audit", "/readyz"):
        assert replica.get(page).status_code == 200, page


def test_a_command_is_refused_with_the_reason(primary: Jobs, replica: Client) -> None:
    (dead,) = primary.admin.list_jobs("dead")
    refused = replica.post(f"/jobs/{dead.id}/retry")
    assert refused.status_code == 403
    assert "this database is read-only" in refused.text
    assert primary.get(dead.id).status == "dead"


def test_a_database_that_is_down_is_said_so_on_pages_and_to_programs() -> None:
    away = Jobs("postgresql://nobody@127.0.0.1:1/nowhere")
    client = Client(make_app(away).test_client())
    page = client.get("/jobs")
    assert page.status_code == 503 and "The database does not answer" in page.text
    command = client.post("/queues/default/pause")
    assert command.status_code == 503 and "The database does not answer" in command.text
    assert client.get("/readyz").status_code == 503
    away.storage.close()
