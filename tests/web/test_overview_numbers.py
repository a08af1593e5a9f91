"""The numbers of the overview agree with each other, and what needs attention stands first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import growth
import msgspec
import pytest
from hosts import PREFIX, Client, RolePolicy, make_app
from sqlalchemy import update

import webui
from sloppyjobs import Jobs, Retry, storage
from sloppyjobs.storage import FakeClock
from sloppyjobs.testing.conformance.admin_scenes import live_worker
from sloppyjobs.views import CappedCount
from webui.times import Times, relative
from webui.ui import Snapshots

NOW = datetime(2030, 5, 20, 12, 0, 30, tzinfo=UTC)
STATEMENTS = 12
"""What the overview sent before it told what needs attention, one for deploys, one for the busiest queues."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def jobs(ready_sqlite_url: str, clock: FakeClock) -> Iterator[Jobs]:
    """Jobs whose handler fails when it is told to."""
    made = Jobs(storage.sqlite(ready_sqlite_url, clock=clock))

    @made.define("work", queue="works", retry=Retry(max_attempts=1))
    def work(ctx: Any, payload: dict[str, bool]) -> None:
        if payload.get("fails"):
            raise ValueError

    made.declare("export-orders", queue="exports")
    yield made
    made.storage.close()


def _get(jobs: Jobs, path: str = "/", policy: Any = None) -> str:
    return Client(make_app(jobs, policy).test_client()).get(path).text


def _words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).replace("\xa0", " ").replace("&nbsp;", " ").split())


def _tile(text: str, status: str) -> str:
    section = text.partition('aria-label="Jobs by status"')[2].partition("</section>")[0]
    found = re.search(rf'<a [^>]*>\s*<span class="st {status}">.*?</a>', section, re.DOTALL)
    assert found is not None
    return _words(found[0])


def _attention(text: str) -> list[str]:
    section = text.partition('id="attention"')[2].partition("</ul>")[0]
    return [_words(item) for item in re.findall(r'<li class="row".*?</li>', section, re.DOTALL)]


def _fail(jobs: Jobs, times: int = 1) -> list[str]:
    ids = [jobs.enqueue("work", {"fails": True}).id for _ in range(times)]
    jobs.create_worker(id="w", recurring=False).run_once()
    return ids


# Tiles


def test_jobs_that_were_cancelled_before_they_ran_are_cancelled_in_the_range(jobs: Jobs, clock: FakeClock) -> None:
    for delay in (0, 900):
        jobs.admin.cancel(jobs.enqueue("work", {}, delay=delay).id)
    assert _tile(_get(jobs), "cancelled") == "Cancelled 2 2 in 1 h up 2"
    clock.advance(2 * 3600)
    assert _tile(_get(jobs), "cancelled") == "Cancelled 2 none in 1 h as before"
    assert _tile(_get(jobs, "/?range=6h"), "cancelled") == "Cancelled 2 2 in 6 h up 2"


def test_deaths_are_not_taken_for_dead_jobs(jobs: Jobs) -> None:
    first, _second = _fail(jobs, 2)
    assert _tile(_get(jobs), "dead") == "Dead 2 2 died in 1 h up 2"
    jobs.admin.retry(first)
    jobs.create_worker(id="w", recurring=False).run_once()
    text = _get(jobs)
    assert _tile(text, "dead") == "Dead 2 3 died in 1 h some retried"
    assert "2 dead now. 3 deaths in the last hour" in text


def test_dead_jobs_are_told_with_the_number_of_their_causes(jobs: Jobs) -> None:
    _fail(jobs, 2)
    assert _attention(_get(jobs))[0].startswith("2 dead jobs, 1 cause 2 of them:")
    _die(jobs, 4)
    assert _attention(_get(jobs))[0].startswith("6 dead jobs, 5 causes 2 of them:")
    _die(jobs, 5, 4)
    assert _attention(_get(jobs))[0].startswith("7 dead jobs, 5+ causes 2 of them:")


def _die(jobs: Jobs, number: int, first: int = 0) -> None:
    """One death each of jobs of other names."""
    for name in (f"other-{one}" for one in range(first, number)):

        @jobs.define(name, retry=Retry(max_attempts=1))
        def other(ctx: Any, payload: Any) -> None:
            raise LookupError

        jobs.enqueue(name, {})
    jobs.create_worker(id="w", recurring=False).run_once()


@pytest.mark.parametrize(("span", "created"), [("1h", 1), ("6h", 2), ("24h", 2), ("7d", 3)])
def test_the_range_governs_what_was_created(jobs: Jobs, clock: FakeClock, span: str, created: int) -> None:
    for wait in (2 * 86_400, 5 * 3600, 0):
        jobs.enqueue("work", {})
        clock.advance(wait)
    shown = f"{span[:-1]} {span[-1]}"
    assert _tile(_get(jobs, f"/?range={span}"), "queued").startswith(f"Queued 3 {created} new in {shown} oldest")


def test_running_jobs_without_a_worker_are_not_counted_out_of_slots(jobs: Jobs) -> None:
    for _ in range(2):
        jobs.enqueue("work", {})
    jobs.claim("a client", queues=("works",), limit=2)
    assert _tile(_get(jobs), "processing").startswith("Processing 2 no live worker")
    live_worker(jobs, concurrency=1)
    assert _tile(_get(jobs), "processing").startswith("Processing 2 running, 1 slot live")
    live_worker(jobs, "another", concurrency=4)
    assert _tile(_get(jobs), "processing").startswith("Processing 2 of 5 slots")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "just now"), (0.9, "just now"), (-0.4, "now"), (1, "1 s ago"), (-60, "in 1 min")]
)
def test_what_has_just_been_fits_into_a_sentence_of_the_past(seconds: float, words: str) -> None:
    assert relative(seconds) == words


# What needs attention


def test_no_worker_is_the_headline_and_is_said_once(jobs: Jobs) -> None:
    jobs.enqueue("work", {})
    assert _attention(_get(jobs)) == ["Nothing else"]
    _fail(jobs)
    for _ in range(14):
        jobs.enqueue("work", {})
    text = _get(jobs)
    verdict = text.partition('id="verdict"')[2].partition('aria-label="Jobs by status"')[0]
    assert "No worker is running. 14 jobs are due. Start a worker: sloppyjobs worker" in _words(verdict)
    assert text.count("No worker is running") == 1
    [other] = _attention(text)
    assert other.startswith("1 dead job 1 of them: work, ValueError")
    live_worker(jobs, names=("work",))
    text = _get(jobs)
    assert 'id="verdict"' not in text
    assert len(_attention(text)) == 1


def test_no_worker_says_when_the_last_one_was_seen(jobs: Jobs, clock: FakeClock) -> None:
    jobs.enqueue("work", {})
    live_worker(jobs)
    jobs.storage.workers.stop("worker_1")
    clock.advance(600)
    assert "Last worker seen" in _words(_get(jobs).partition('id="verdict"')[2])


def test_an_installation_without_jobs_stays_calm(jobs: Jobs) -> None:
    text = _get(jobs)
    assert 'id="verdict"' not in text
    assert "No jobs yet" in text
    assert _attention(text)[0].startswith("Nothing")


def test_jobs_that_no_worker_can_run_lead_to_their_list(jobs: Jobs) -> None:
    live_worker(jobs, queues=("exports",), names=("work",))
    for _ in range(6):
        jobs.enqueue("export-orders", {})
    text = _get(jobs)
    assert _attention(text)[0].startswith("No worker can run export-orders (6 queued in exports)")
    link = re.search(r'<a href="([^"]*)">No worker can run', text)
    assert link is not None
    assert link[1].startswith(f"{PREFIX}/jobs?")
    assert {"status=queued", "queue=exports", "name=export-orders"} <= set(link[1].partition("?")[2].split("&amp;"))


def test_a_queue_without_a_worker_says_what_to_start(jobs: Jobs) -> None:
    live_worker(jobs, queues=("works",), names=("work",))
    jobs.enqueue("export-orders", {})
    [shown] = _attention(_get(jobs))
    assert shown.startswith("No worker for exports 1 queued. The first was due")
    assert shown.endswith("Start a worker that takes from it: sloppyjobs worker --queue exports")


def test_a_command_to_paste_quotes_what_a_shell_would_run(jobs: Jobs) -> None:
    live_worker(jobs, queues=("works",))
    jobs.enqueue("work", {}, queue="a; reboot")
    [one] = jobs.admin.overview().attention
    assert one.command == "sloppyjobs worker --queue 'a; reboot'"
    assert "--queue &#39;a; reboot&#39;" in _get(jobs)


def _pause(jobs: Jobs) -> None:
    live_worker(jobs, names=("work",))
    jobs.enqueue("work", {})
    jobs.admin.pause_queue("works", until=datetime.now(UTC) + timedelta(days=2_000))
    with jobs.storage.database.writing() as connection:
        connection.execute(update(jobs.storage.tables.queues).values(paused_by="ops", pause_reason="<b>rebuild"))


def test_a_paused_queue_says_until_when_by_whom_and_why(jobs: Jobs) -> None:
    _pause(jobs)
    [shown] = _attention(_get(jobs))
    assert re.match(r"works is paused 1 queued\. Paused .* by ops, until \w{3} \d+ \w{3} \d{4}, [\d:]+ *:", shown)
    assert "&lt;b&gt;rebuild" in shown


def test_who_does_not_see_queues_does_not_see_who_paused_one(jobs: Jobs) -> None:
    class OverviewOnly(RolePolicy):
        def can(self, actor: object, action: str, resource: webui.Resource) -> bool:
            return action == "overview.view"

    _pause(jobs)
    [shown] = _attention(_get(jobs, policy=OverviewOnly()))
    assert "works is paused" in shown
    assert "ops" not in shown
    assert "rebuild" not in shown


def test_a_late_schedule_says_that_no_worker_runs_the_scheduler(jobs: Jobs, clock: FakeClock) -> None:
    jobs.recurring("nightly", "work", {}, every=60)
    clock.advance(600)
    text = _get(jobs)
    assert 'id="verdict"' in text
    assert any(one.startswith("nightly is late Was due") for one in _attention(text))
    assert "No worker is running the scheduler." in text


# One definition everywhere


def test_the_api_tells_the_same(jobs: Jobs) -> None:
    _fail(jobs)
    _pause(jobs)
    answer = make_app(jobs).test_client().get(
        f"{PREFIX}/api/v1/overview", headers={"Authorization": "Bearer t0k3n"}
    )  # fmt: skip
    expected = jobs.admin.overview().attention
    assert [one["code"] for one in answer.json["attention"]] == [one.code for one in expected]
    assert answer.json["attention"] == list(msgspec.to_builtins(expected))


def test_metrics_tell_every_kind_also_where_there_is_none(jobs: Jobs) -> None:
    jobs.enqueue("work", {})
    headers = {"Authorization": "Bearer t0k3n"}
    text = make_app(jobs).test_client().get(f"{PREFIX}/metrics", headers=headers).text
    assert "sloppyjobs_jobs_due 1.0" in text
    assert 'sloppyjobs_attention{code="no_worker"} 1.0' in text
    assert 'sloppyjobs_attention{code="no_handler"} 0.0' in text


def test_the_navigation_counts_what_the_page_counts_over_any_range(jobs: Jobs) -> None:
    _fail(jobs, 3)
    client = Client(make_app(jobs).test_client())
    client.get("/")
    _fail(jobs, 2)
    text = client.get("/?range=24h").text
    assert _tile(text, "dead").startswith("Dead 5")
    assert re.search(r'id="count-dead"[^>]*>\s*5<', text)
    assert re.search(r'id="count-dead"[^>]*>\s*5<', client.get("/counts").text)


def test_a_page_and_its_counters_are_read_once_for_many_viewers(jobs: Jobs) -> None:
    moment = 0.0
    snapshots = Snapshots(lambda: jobs.admin, lambda: moment)
    overview, stats, deploys = snapshots.page(None, 60)
    jobs.admin.cancel(jobs.enqueue("work", {}).id)
    assert snapshots.page(None, 60) == (overview, stats, deploys)
    assert snapshots.overview(None) is overview
    other, counted, _ = snapshots.page(None, 360)
    assert (other.count("cancelled").value, counted.total.cancelled, other.minutes) == (1, 1, 360)
    assert snapshots.recent(None) is other
    moment = 2.0
    assert snapshots.page(None, 60)[1].total.cancelled == 1


def test_deploys_for_charts_are_read_once_in_fifteen_seconds_and_after_a_command(jobs: Jobs) -> None:
    moment = 0.0
    snapshots = Snapshots(lambda: jobs.admin, lambda: moment)
    jobs.admin.mark_deploy("118")
    assert [one.version for one in snapshots.deploys()] == ["118"]
    jobs.admin.mark_deploy("119")
    assert [one.version for one in snapshots.deploys()] == ["118"]
    moment = 16.0
    assert [one.version for one in snapshots.deploys()] == ["119", "118"]
    jobs.admin.mark_deploy("120")
    snapshots.clear()
    assert snapshots.deploys()[0].version == "120"


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_what_needs_attention_costs_no_statement(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path / 'few.db'}" if database == "sqlite" else request.getfixturevalue("postgres_url")
    pages = growth.Site(growth.filled(url, 400))
    live_worker(pages.jobs, queues=("q1", "q2"), names=())
    pages.jobs.enqueue("work", {}, queue="held")
    pages.jobs.admin.pause_queue("held")
    assert {"queue_without_worker", "no_handler", "queue_paused"} <= {
        one.code for one in pages.jobs.admin.overview().attention
    }
    # Beginning and end of the transaction are statements of their own on PostgreSQL.
    assert pages.sent("/") <= STATEMENTS + (2 if database == "postgres" else 0)
    assert "all rows" not in pages.plan("/")
    pages.jobs.storage.close()


# Busiest queues


def _busiest(text: str) -> list[str]:
    return re.findall(r'id="busy-([^"]+)"', text)


def test_the_busiest_queues_are_those_that_finish_most_then_those_that_run_then_those_that_wait(jobs: Jobs) -> None:
    jobs.define("other", queue="few")(lambda ctx, payload: None)
    for name, number in (("work", 3), ("other", 1)):
        for _ in range(number):
            jobs.enqueue(name, {})
    jobs.create_worker(recurring=False).run_once()
    jobs.enqueue("work", {}, queue="running")
    jobs.claim("app-9:1", queues=("running",), names=frozenset({"work"}), limit=1)
    jobs.enqueue("work", {}, queue="a-waiting")
    jobs.enqueue("work", {}, queue="idle", delay=60)
    assert [one.name for one in jobs.admin.overview().busiest] == ["works", "few", "running", "a-waiting"]
    text = _get(jobs)
    assert _busiest(text) == ["works", "few", "running", "a-waiting"]
    shown = _words(text.partition("Busiest queues")[2].partition("</table>")[0])
    rate = f"{jobs.admin.get_queue('works').throughput:,.1f}"
    assert f"works 0 – 0 {rate}" in shown
    listed = _get(jobs, "/queues")
    assert rate in listed


def test_the_busiest_queues_are_those_that_the_viewer_sees(jobs: Jobs) -> None:
    jobs.enqueue("work", {})
    jobs.enqueue("work", {}, queue="secret")
    seen = jobs.admin.overview(queues=["works"])
    assert [one.name for one in seen.busiest] == ["works"]


def test_an_installation_without_jobs_has_no_busiest_queues(jobs: Jobs) -> None:
    jobs.storage.init()
    assert "Busiest queues" not in _get(jobs)


# Times and words


def test_a_bar_of_another_day_names_the_day(jobs: Jobs, clock: FakeClock) -> None:
    now = datetime.now(UTC)
    week = (now - timedelta(days=3)).replace(hour=12)
    clock.advance((week - NOW).total_seconds())
    _fail(jobs)
    clock.advance((now - week).total_seconds())
    text = _get(jobs, "/?range=7d")
    titles = re.findall(r"<span>([^<]* [1-9]\d* failed)</span>", text)
    assert len(titles) == 1
    assert re.match(rf"{week:%a} {week.day} {week:%b}, \d\d:\d\d: 0 succeeded, 1 failed$", titles[0])
    axis = text.partition('<ol class="x"')[2].partition("</ol>")[0]
    assert len(re.findall(r"<li>\d+ \w{3}</li>", axis)) == 7


def test_counts_of_causes_that_stopped_early_are_no_shares_and_the_total_is_that_of_the_overview(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(7):
        _fail(jobs)
    assert "7 dead, 100 %" in _words(_get(jobs, "/dead"))
    [group] = jobs.admin.dead_groups()
    early = msgspec.structs.replace(group, count=CappedCount(4, True))
    monkeypatch.setattr(type(jobs.admin), "dead_groups", lambda *_, **__: (early,))
    text = _get(jobs, "/dead")
    assert "7 dead, 1 cause" in _words(text)
    assert "4+ dead" in _words(text)
    assert "100 %" not in _words(text)
    assert re.search(r'id="count-dead"[^>]*>7<', text)


@pytest.mark.parametrize(
    ("moment", "zone", "said", "on_axis"),
    [
        (NOW - timedelta(hours=1), "UTC", "11:00", "11:00"),
        (NOW - timedelta(days=1), "UTC", "Sun 19 May, 12:00", "Sun 12:00"),
        (NOW + timedelta(hours=11), "UTC", "23:00", "23:00"),
        (NOW + timedelta(hours=11), "Europe/Paris", "Tue 21 May, 01:00", "Tue 01:00"),
        (NOW + timedelta(days=365), "UTC", "Tue 20 May 2031, 12:00", "Tue 12:00"),
    ],
)
def test_a_time_that_is_not_today_names_its_day_in_the_viewers_zone(
    moment: datetime, zone: str, said: str, on_axis: str
) -> None:
    times = Times(ZoneInfo(zone), NOW)
    assert times.short(moment) == said
    assert times.short(moment, 86_400) == on_axis
    assert f">{said}:30<" in times.clock(moment)


def test_a_fire_in_another_year_names_it_and_a_zone_without_letters_is_an_offset() -> None:
    times = Times(ZoneInfo("America/Sao_Paulo"), NOW)
    assert times.day(NOW) == "Mon 20 May, 09:00 UTC-03"
    assert times.full(NOW) == "Mon 20 May 2030, 09:00:30 UTC-03"
    assert ">09:00:30 UTC-03<" in times.taken(NOW)
    leap = NOW.replace(year=2032, month=2, day=29)
    assert times.day(leap, ZoneInfo("Europe/Paris")) == "Sun 29 Feb 2032, 13:00 CET"
    # The year is that of the zone.
    eve = Times(ZoneInfo("UTC"), NOW.replace(month=12, day=31, hour=23))
    assert eve.day(eve.now, ZoneInfo("Asia/Tokyo")) == "Wed 1 Jan, 08:00 JST"


def test_the_words_are_those_of_operators(jobs: Jobs) -> None:
    text = _get(jobs, "/?range=24h")
    for words in ("Attempts finished", "Average run time", "Last 24 hours", "View all", "Show as table"):
        assert words in text
    for words in ("settled", "Mean time", "In the last", "The same as a table", "Nobody works"):
        assert words not in text
    assert "Last hour" in _get(jobs)
