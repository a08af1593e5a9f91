"""The page of one kind of job: what it says, who sees what of it, and names that are hostile."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from flask import url_for
from hosts import PREFIX, Client, RolePolicy, make_app

from sloppyjobs import Jobs
from sloppyjobs.domain.spreads import Bin, Spread
from webui import percentile_charts
from webui.policy import Resource

START = datetime(2030, 1, 1, tzinfo=UTC)
BEARER = {"Authorization": "Bearer t0k3n"}
PATH = "/job-types/send-email?range=7d"
HOSTILE = ["a/b", "..", "line\nbreak", "<script>alert(1)</script>", "🦥 %2F ~2F", "back\\slash?#", "x/queues/../y"]


def _text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_the_page_says_of_how_many_runs_its_percentiles_are(admin: Client, played: Jobs) -> None:
    sample = played.admin.get_job_type("send-email").sample
    assert sample.runs > 1
    shown = _text(admin.get(PATH).text)
    of = f"of the latest {sample.runs:,} runs" if sample.partial else f"of all {sample.runs:,} runs"
    assert of in shown
    for title in ("Run time", "Waiting time", "Throughput and failures", "Slowest runs", "How long runs take",
                  "Causes of death", "Where it comes from", "As defined"):  # fmt: skip
        assert title in shown
    assert "Redacts token" in shown
    assert "weekly-digest" in shown


def test_every_chart_has_a_table(admin: Client) -> None:
    html = admin.get(PATH).text
    charts = re.findall(r'<svg[^>]*role="img"[^>]*>', html)
    figures = re.findall(r'<figure class="plot(?: two)?">.*?</figure>\s*<details.*?<table', html, re.DOTALL)
    assert len(figures) == 5
    assert all("aria-label=" in chart for chart in charts)


def test_the_range_governs_the_counters_and_is_kept_in_the_links(admin: Client) -> None:
    html = admin.get("/job-types/send-email?range=6h").text
    assert re.search(r'href="[^"]*/job-types/send-email\?range=6h"\s+aria-current="true"', html)
    assert "the last 6 hours" in html


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_has_a_page_and_is_only_text_on_it(admin: Client, played: Jobs, name: str) -> None:
    played.declare(name)
    played.enqueue(name)
    with admin.client.application.test_request_context(PREFIX + "/"):
        address = url_for("sloppyjobs.job_type", name=name).removeprefix(PREFIX)
        beside = url_for("sloppyjobs.api_job_type", name=name)
    page = admin.get(address)
    assert page.status_code == 200
    assert "<script>alert" not in page.text
    assert admin.client.get(beside, headers=BEARER).json["name"] == name


def test_a_name_that_nobody_knows_is_not_found(admin: Client) -> None:
    page = admin.get("/job-types/nobody")
    assert (page.status_code, "no such job type" in page.text) == (404, True)
    answer = admin.client.get(f"{PREFIX}/api/v1/job-types/nobody", headers=BEARER)
    assert (answer.status_code, answer.json["error"]["code"]) == (404, "SLOPPY_E_JOBS_UNKNOWN_JOB")


def test_what_the_viewer_may_not_open_is_left_out(played: Jobs) -> None:
    class Narrow(RolePolicy):
        def can(self, actor: object, action: str, resource: Resource) -> bool:
            return action == "job.view"

    client = Client(make_app(played, Narrow()).test_client())
    html = client.get(PATH).text
    assert "Run time" in html
    for hidden in ("Causes of death", "weekly-digest", "/workers", "/queues/emails"):
        assert hidden not in html


def test_other_queues_are_not_counted(played: Jobs) -> None:
    client = Client(make_app(played).test_client(), "emails")
    assert client.get(PATH).status_code == 200
    foreign = next(one.name for one in played.definitions if one.queue != "emails")
    assert client.get(f"/job-types/{foreign}").status_code == 404


def test_a_process_without_the_definition_says_how_to_make_it_known(played: Jobs) -> None:
    client = Client(make_app(Jobs(played.storage)).test_client())
    shown = _text(client.get(PATH).text)
    assert "SLOPPYJOBS_APP" in shown


def test_pages_about_a_job_lead_to_its_type(admin: Client, played: Jobs) -> None:
    job = played.admin.list_jobs("dead", name="send-email")[0]
    cause = next(one.cause for one in played.admin.dead_groups() if one.name == "send-email")
    for page in (
        f"/jobs/{job.id}",
        f"/dead/{cause}",
        "/recurring/weekly-digest",
        "/jobs?name=send-email",
    ):
        assert f'{PREFIX}/job-types/send-email"' in admin.get(page).text, page


# Geometry


def test_curves_have_gaps_where_nothing_was_measured() -> None:
    some = Spread(values=1, p50=1.0, p95=2.0, p99=4.0, longest=4.0)
    starts = [START + timedelta(minutes=number) for number in range(4)]
    found = percentile_charts.curves(starts, [some, some, Spread(), some], 60)
    assert found.paths["p50"] == "M0 75.00h1V75.00h1M3 75.00h1"
    assert found.ticks == (4.0, 2.0, 0.0)


@pytest.mark.parametrize(
    ("value", "top"), [(0.0, 0.002), (0.003, 0.004), (0.9, 1.0), (41.0, 60), (61.0, 120), (90_000.0, 172_800)]
)
def test_a_scale_of_seconds_ends_at_a_round_number(value: float, top: float) -> None:
    assert percentile_charts.top_seconds(value) == pytest.approx(top)


def test_a_histogram_says_where_its_bars_begin_and_end() -> None:
    found = percentile_charts.histogram([Bin(0.0, 0.001, 3), Bin(0.001, 0.002, 0), Bin(0.002, 0.005, 1)])
    assert found is not None
    assert [bar.words for bar in found.bars] == ["less than 1 ms", "1 ms to 2 ms", "2 ms to 5 ms"]
    assert [label[1] for label in found.labels][-1] == "5 ms"
    assert percentile_charts.histogram([]) is None
