"""Lists of jobs show what people look for, and refuse what cannot be meant."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
import scene
from hosts import PREFIX, Client, make_app
from sqlalchemy import event

from sloppyjobs import Jobs, errors
from webui import filters

_TITLE = re.compile(r"<title>(.*?) · ")
_EMPTY = re.compile(r'class="panel empty">.*?<h2>(.*?)</h2>', re.DOTALL)
UTC_ZONE = ZoneInfo("UTC")


def found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    assert match is not None, text
    return match[1]


@pytest.mark.parametrize("path", ["/jobs?status=dead&queue=emails", "/queues/emails"])
def test_a_row_shows_the_first_fields_of_the_payload_and_the_error(admin: Client, path: str) -> None:
    text = admin.get(path).text
    assert "{&#34;template&#34;: &#34;receipt&#34;, &#34;to&#34;: &#34;ada@example.org&#34;, &#34;order&#34;:" in text
    assert "SmtpTimeout: no reply from" in text
    assert scene.SECRET not in text


def test_a_payload_from_a_stranger_is_escaped(jobs: Jobs) -> None:
    jobs.declare("greet", queue="emails")
    jobs.enqueue("greet", {"name": "</bdi><script>alert(1)</script>", "password": scene.SECRET})
    text = Client(make_app(jobs).test_client()).get("/jobs").text
    assert "<script>alert" not in text
    assert "&lt;/bdi&gt;&lt;script&gt;alert(1)" in text
    assert "&#34;password&#34;: [redacted]" in text
    assert scene.SECRET not in text


def test_a_list_asks_no_more_than_before(admin: Client, played: Jobs) -> None:
    counted: list[str] = []
    admin.get("/jobs")
    event.listen(played.storage.engine, "before_cursor_execute", lambda *given: counted.append(given[2]))
    assert admin.get("/jobs?size=100").status_code == 200
    assert len([statement for statement in counted if "sloppy_jobs" in statement]) == 2, counted


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ("processing", r'<span class="mut">running</span> <time[^>]*data-age'),
        ("queued", r'<span class="mut">waiting</span> <time[^>]*data-age'),
        ("succeeded", r"\d+(\.\d)? m?s"),
        ("dead", r"\d+(\.\d)? m?s"),
        ("scheduled", "–"),
        ("cancelled", "–"),
    ],
)
def test_a_row_says_how_long_it_runs_ran_or_waits(admin: Client, status: str, shown: str) -> None:
    cells = re.findall(r'data-l="Duration"[^>]*>(.*?)</td>', admin.get(f"/jobs?status={status}").text, re.DOTALL)
    assert cells
    assert all(re.match(shown, cell.strip()) for cell in cells), cells


@pytest.mark.parametrize(
    ("query", "last"),
    [
        ("", "Worker"),
        ("?status=processing", "Worker"),
        ("?status=dead", "Ended"),
        ("?status=succeeded", "Ended"),
        ("?status=queued", "Last change"),
    ],
)
def test_a_list_has_a_worker_only_where_jobs_can_have_one(admin: Client, query: str, last: str) -> None:
    text = admin.get(f"/jobs{query}").text
    assert re.findall(r'<th role="columnheader"[^>]*>([^<]+)</th>', text)[-1] == last
    assert "Worker" not in (*re.findall(r'data-l="(\w+)"', text), last) or last == "Worker"


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("", "Jobs"),
        ("?status=dead", "Dead jobs"),
        ("?status=dead&queue=emails", "Dead jobs in emails"),
        ("?name=send-email", "send-email jobs"),
        ("?queue=emails", "Jobs in emails"),
        ("?status=queued&name=send-email", "Queued send-email jobs"),
        ("?status=dead&error_code=x", "Dead jobs, filtered"),
    ],
)
def test_the_title_says_what_is_listed(admin: Client, query: str, title: str) -> None:
    assert found(_TITLE, admin.get(f"/jobs{query}").text) == title


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?status=failed", "No failed jobs."),
        ("?status=deleted", "No deleted jobs."),
        ("?status=dead&name=nobody", "No dead jobs match these filters."),
        ("?name=nobody", "No jobs match these filters."),
    ],
)
def test_an_empty_list_says_so_in_plain_words(admin: Client, query: str, words: str) -> None:
    assert found(_EMPTY, admin.get(f"/jobs{query}").text) == words


@pytest.mark.parametrize(
    ("query", "link"),
    [
        ("?name=nobody", "/archive?name=nobody"),
        ("?status=succeeded&business_key=order:1", "/archive?key=order:1"),
        ("?tag=none", "/archive"),
        ("?status=queued&name=nobody", None),
        ("?status=failed", None),
    ],
)
def test_an_empty_list_leads_to_the_archive_where_the_jobs_may_be(admin: Client, query: str, link: str | None) -> None:
    page = admin.get(f"/jobs{query}").text
    assert ("Search the archive" in page) is (link is not None)
    if link is not None:
        assert f'class="btn" href="{PREFIX}{link}"' in page


@pytest.mark.parametrize(
    ("query", "sorted_by"),
    [
        ("", [("Created", "descending", "sort")]),
        ("?order=created_at", [("Created", "ascending", "sort-up")]),
        ("?status=scheduled", [("Runs", None, "sortable"), ("Created", "descending", "sort")]),
        ("?status=scheduled&order=run_at", [("Runs", "ascending", "sort-up"), ("Created", None, "sortable")]),
        ("?status=scheduled&order=-run_at", [("Runs", "descending", "sort"), ("Created", None, "sortable")]),
    ],
)
def test_only_the_sorted_column_has_an_arrow(
    admin: Client, query: str, sorted_by: list[tuple[str, str | None, str]]
) -> None:
    text = admin.get(f"/jobs{query}").text
    seen = []
    for attributes, inside in re.findall(r'<th role="columnheader"([^>]*)>(.*?)</th>', text, re.DOTALL):
        icon = re.search(r"#([\w-]+)\"/>", inside)
        if icon is None:
            assert "aria-sort" not in attributes
            continue
        direction = re.search(r'aria-sort="(\w+)"', attributes)
        name = re.sub(r"<[^>]*>", "", inside).strip()
        seen.append((name, direction and direction[1], icon[1]))
    assert seen == sorted_by


@pytest.mark.parametrize(
    ("query", "field", "typed", "why"),
    [
        ("name=" + "x" * 200, "name", "x" * 200, "Must have at most 128 characters, this has 200."),
        ("created_from=yesterday", "created_from", "yesterday", "Write a date and a time"),
        ("created_to=31.12.", "created_to", "31.12.", "Write a date and a time"),
        ("queue=%00", "queue", "", "Must not be empty."),
        ("created_from=2026-02-01T00:00&created_to=2026-01-01T00:00", "created_to", "2026-01-01T00:00",
         "Choose a time after"),
    ],
)  # fmt: skip
def test_an_odd_filter_is_refused_in_place_and_stays(
    admin: Client, query: str, field: str, typed: str, why: str
) -> None:
    response = admin.get(f"/jobs?{query}")
    assert response.status_code == 400
    control = re.search(rf'<input id="filter-{field}"[^>]*>', response.text)
    assert control is not None
    assert f'aria-invalid="true" aria-describedby="refused-{field}"' in control[0]
    assert f'value="{typed}' in control[0]
    assert why in found(re.compile(rf'id="refused-{field}">(.*?)</p>', re.DOTALL), response.text)
    assert "data-row" not in response.text, "nothing is listed that was not asked for"


def test_a_range_and_a_start_are_not_both_taken(admin: Client) -> None:
    response = admin.get("/jobs?range=1h&created_from=2026-01-01T00:00")
    assert response.status_code == 400
    assert '<option value="1h" selected>' in response.text
    assert 'value="2026-01-01T00:00"' in response.text
    assert "Choose a range or “Created from”, not both." in response.text


def test_a_status_that_does_not_exist_is_refused(admin: Client) -> None:
    response = admin.get("/jobs?status=exploded")
    assert response.status_code == 400
    assert "no status is called “exploded”." in response.text


def test_a_bulk_command_with_an_odd_filter_is_refused_and_does_nothing(admin: Client, played: Jobs) -> None:
    dead = len(played.admin.list_jobs("dead"))
    sent = {"status": "dead", "created_to": "yesterday", "matching": "1", "from": "jobs"}
    assert admin.post("/bulk/retry", sent).status_code == 400
    assert len(played.admin.list_jobs("dead")) == dead


def test_a_refused_filter_is_no_query() -> None:
    wanted = filters.parse({"status": "dead", "created_to": "soon"}, UTC_ZONE, datetime(2030, 1, 1, tzinfo=UTC))
    assert wanted.values == {"status": "dead", "created_to": "soon"}
    with pytest.raises(errors.InvalidOption, match="Created before: Write a date"):
        _ = wanted.query


@pytest.mark.parametrize(
    ("query", "offered"),
    [
        ("?name=email", "?name=send-email"),
        ("?name=SEND&status=dead", "?name=send-email&amp;status=dead"),
        ("?name=send-emial", "?name=send-email"),
        ("?queue=mail", "?queue=emails"),
    ],
)
def test_a_part_of_a_name_is_answered_with_the_names_that_contain_it(admin: Client, query: str, offered: str) -> None:
    text = admin.get(f"/jobs{query}").text
    assert "Did you mean:" in text
    assert f'href="/admin/jobs/jobs{offered}"' in text


@pytest.mark.parametrize("query", ["?name=send-email&status=paused", "?name=nothing-like-it", "?error_code=email"])
def test_nothing_is_offered_for_a_name_that_exists_or_that_none_is_like(admin: Client, query: str) -> None:
    assert "Did you mean" not in admin.get(f"/jobs{query}").text


def test_names_of_other_queues_are_not_offered(admin: Client) -> None:
    scoped = Client(admin.client, "emails")
    assert "Did you mean" not in scoped.get("/jobs?name=render").text
    assert "Did you mean" in scoped.get("/jobs?name=send").text


def test_the_api_carries_the_preview_and_the_duration(admin: Client) -> None:
    answer = admin.client.get("/admin/jobs/api/v1/jobs?status=dead", headers={"Authorization": "Bearer t0k3n"})
    row = next(row for row in answer.json["items"] if row["name"] == "send-email")
    assert row["payload_preview"]["value"]["template"] == "receipt"
    assert row["duration"] >= 0
    assert row["started_at"]
    assert scene.SECRET not in answer.text


def test_a_job_without_a_payload_shows_none_in_a_list(admin: Client, played: Jobs) -> None:
    bare, full = played.enqueue("export-orders"), played.enqueue("export-orders", {"order": 7})
    text = admin.get("/jobs?name=export-orders").text
    rows = {id: text.partition(f'id="row-{id}"')[2].partition("</th>")[0] for id in (bare.id, full.id)}
    assert "<bdi" not in rows[bare.id]
    assert "order" in rows[full.id].partition("<bdi")[2]


def test_a_row_shows_a_key_of_the_application_and_not_that_of_an_occurrence(jobs: Jobs) -> None:
    jobs.declare("greet", queue="emails")
    jobs.enqueue("greet", {}, idempotency_key="greeting-7")
    occurrence = "recurring:nightly-tidy@2030-01-01T00:00:00.000000Z"
    jobs.enqueue("greet", {}, idempotency_key=occurrence)
    text = Client(make_app(jobs).test_client()).get("/jobs").text
    assert text.count(">greet</a>") == 2
    assert "greeting-7" in text
    assert "recurring:" not in text
