"""The find box: parts of ids, names, queues, errors, schedules and workers; exact keys; one hit is opened."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape

import pytest
import scene
from flask import Flask
from hosts import PREFIX, Client, make_app

from sloppyjobs import Jobs
from sloppyjobs.domain.model import WorkerInfo
from sloppyjobs.ids import shortened


def found(client: Client, text: str) -> str:
    """Where the find box leads; empty where it shows a page."""
    return client.get("/find", query_string={"q": text}).headers.get("Location", "").removeprefix(PREFIX)


def page(client: Client, text: str) -> str:
    answer = client.get("/find", query_string={"q": text})
    assert answer.status_code == 200
    return unescape(answer.text)


@pytest.fixture
def dead(played: Jobs) -> str:
    return played.admin.list_jobs("dead", name="send-email")[0].id


def test_an_id_opens_its_job_whole_shortened_or_in_part(admin: Client, dead: str) -> None:
    for text in (dead, dead.upper(), shortened(dead), shortened(dead).replace("…", "..."), dead[-8:], f" {dead} "):
        assert found(admin, text) == f"/jobs/{dead}", text


def test_every_id_is_found_as_it_is_printed(admin: Client, dead: str) -> None:
    text = admin.get("/jobs?status=dead").text
    assert f'title="{dead}">{shortened(dead)}</code>' in text


def test_a_name_with_a_slash_is_found(jobs: Jobs) -> None:
    jobs.declare("billing/send", queue="mail/out")
    job = jobs.enqueue("billing/send", {}, idempotency_key="order/1")
    jobs.enqueue("billing/send", {})
    jobs.recurring("every/night", "billing/send", {}, cron="0 0 1 1 *")
    client = Client(make_app(jobs).test_client())
    assert "<h1>billing/send</h1>" in client.get(found(client, "billing/send")).text
    assert found(client, "order/1") == f"/jobs/{job.id}"
    assert "mail/out" in client.get(found(client, "mail/o")).text
    assert "every/night" in client.get(found(client, "every/")).text


@pytest.mark.parametrize(
    ("text", "led"),
    [
        ("send-email", "/job-types/send-email"),
        ("end-EMA", "/job-types/send-email"),
        ("rollups", "/queues/rollups"),
        ("reconcile", "/recurring/reconcile-balances"),
        ("audit", "/audit"),
    ],
)
def test_the_only_thing_of_a_name_is_opened(admin: Client, text: str, led: str) -> None:
    assert found(admin, text) == led


def test_workflows_batches_limits_and_pages_are_found(admin: Client, played: Jobs) -> None:
    flow = scene.workflow(played)
    batch = played.admin.list_batches()[0]
    for text in (flow, "rehouse-refr"):
        assert found(admin, text) == f"/workflows/{flow}"
    for text in (batch.id, batch.name):
        assert found(admin, text) == f"/batches/{batch.id}"
    assert found(admin, "ments-ap") == "/limits/payments-api"
    assert found(admin, "encrypt") == "/encryption"
    assert "flow_nobody" in page(admin, "flow_nobody")
    assert "batch_nobody" in page(admin, "batch_nobody")


def test_an_archived_job_is_found_by_its_id_and_its_key(
    admin: Client, as_role: Callable[[str | None], Client], played: Jobs
) -> None:
    old = played.admin.search_archive()[0]
    for text in (old.id, old.id.upper(), shortened(old.id), str(old.business_key)):
        assert found(admin, text) == f"/archive/{old.id}", text
        assert "Nothing found" in page(as_role("emails"), text)
    assert "Nothing found" in page(admin, "job_" + "x" * 200)


def test_a_rule_for_alerts_is_found_by_a_part_of_its_name(
    admin: Client, as_role: Callable[[str | None], Client]
) -> None:
    assert found(admin, "d-invoi") == "/alerts?rule=dead-invoices"
    assert "Nothing found" in page(as_role("emails"), "d-invoi")


def test_a_viewer_of_one_queue_finds_no_workflow_or_batch_of_others(
    as_role: Callable[[str | None], Client], played: Jobs
) -> None:
    flow, batch = scene.workflow(played), played.admin.list_batches()[0]
    scoped = as_role("emails")
    for text in (flow, batch.id):
        assert "Nothing found" in page(scoped, text)


def test_a_cause_is_found_by_a_part_of_its_error(admin: Client, played: Jobs) -> None:
    (group,) = (one for one in played.admin.dead_groups() if one.name == "send-email")
    assert found(admin, "mtpTimeo") == f"/dead/{group.cause}"


def test_a_worker_is_found_by_a_part_of_its_id_and_as_it_is_printed(admin: Client, played: Jobs) -> None:
    id = "app-7.internal.example.org:4127"
    played.storage.workers.register(
        WorkerInfo(
            id=id, hostname="app-7", pid=4127, queues=("emails",), names=(), concurrency=1, heartbeat=5, version="1"
        )
    )
    for text in (id, "app-7", f"{id[:11]}…{id[-5:]}"):
        assert found(admin, text) == f"/workers/{id}", text


def test_exact_keys_open_their_job_and_parts_of_them_do_not(admin: Client, played: Jobs) -> None:
    keyed = played.admin.list_jobs(idempotency_key="receipt:48215")[0]
    assert found(admin, "receipt:48215") == f"/jobs/{keyed.id}"
    assert found(admin, keyed.correlation_id or "") == f"/jobs/{keyed.id}"
    assert found(admin, "receipt:482") == ""


def test_several_things_are_shown_by_kind(admin: Client) -> None:
    text = page(admin, "email")
    assert "Job types" in text and "Queues" in text
    assert "send-<mark>email</mark></a>" in text and "<mark>email</mark>s</a>" in text
    assert "Nothing found" not in text
    assert 'type="search"' in text and 'value="email"' in text, "it stays in the box"


def test_nothing_says_what_was_looked_for(admin: Client) -> None:
    text = page(admin, "no-such-<thing>")
    assert "Nothing found" in text and "No match for “no-such-<thing>”" in text
    assert "job ids, exact keys, job types, errors of dead jobs, queues, schedules, workers" in text


def test_nothing_typed_leads_to_the_list(admin: Client) -> None:
    assert found(admin, "  ") == "/jobs"


def test_a_name_that_is_neither_defined_nor_counted_is_found_by_its_jobs(jobs: Jobs, app: Flask) -> None:
    other = Jobs(jobs.storage)
    other.declare("from-elsewhere")
    other.enqueue("from-elsewhere", {})
    client = Client(make_app(jobs).test_client())
    assert found(client, "from-elsewhere") == "/job-types/from-elsewhere"


def test_who_sees_one_queue_finds_nothing_of_others(app: Flask, played: Jobs) -> None:
    clerk = Client(app.test_client(), "emails")
    hidden = played.admin.list_jobs(queue="invoices")[0]
    for text in (hidden.id, shortened(hidden.id), "render-invoice", "TemplateError", "rollups", "nightly-rollup"):
        assert "Nothing found" in page(clerk, text), text
    assert found(clerk, "send-email") == "/job-types/send-email"
    looked = page(clerk, "nothing-at-all")
    assert "workers" not in looked.partition("No match")[2].partition("</p>")[0]


def test_many_hits_are_bounded(jobs: Jobs) -> None:
    for number in range(30):
        jobs.declare(f"sync-{number:02}", queue=f"queue-{number:02}")
        jobs.enqueue(f"sync-{number:02}", {}, correlation_id="together")
    client = Client(make_app(jobs).test_client())
    assert page(client, "sync-").count("<mark>sync-</mark>") == 20
    text = page(client, "together")
    assert text.count('class="row"') == 20 and "20+" in text
    assert f'href="{PREFIX}/jobs?correlation_id=together">View all</a>' in text


def test_what_is_typed_is_suggested_by_kind_without_opening_anything(admin: Client, dead: str) -> None:
    def suggested(text: str) -> str:
        answer = admin.get("/find", query_string={"q": text, "suggest": "1"}, headers={"HX-Request": "true"})
        assert (answer.status_code, answer.headers["SJ-Page"]) == (200, "1")
        return unescape(answer.text)

    text = suggested("em")
    assert f'href="{PREFIX}/job-types/send-email"' in text
    assert text.index("Errors of dead jobs") < text.index("Job types")
    assert f'href="{PREFIX}/find?q=em"' in text
    assert "<title>" not in text
    assert f'href="{PREFIX}/jobs/{dead}"' in suggested(dead)
    assert "href" not in suggested("nothing like this")
    assert suggested("e").count(f'href="{PREFIX}/queues/') == 4


def test_a_suggestion_is_text(jobs: Jobs) -> None:
    jobs.declare("<b>send</b>", queue="a&b")
    jobs.enqueue("<b>send</b>")
    client = Client(make_app(jobs).test_client())
    text = client.get("/find?q=send&suggest=1", headers={"HX-Request": "true"}).text
    assert "&lt;b&gt;send&lt;/b&gt;" in text
    assert "<b>" not in text
