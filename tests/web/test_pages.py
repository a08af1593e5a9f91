"""Every page answers, shows what it should and nothing it must not."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import scene
from every_page import EVERY_PAGE, Addresses
from hosts import PREFIX, Client, make_app
from sqlalchemy import event

from sloppyjobs import Jobs, Retry, storage
from sloppyjobs.domain.states import Status
from sloppyjobs.storage import FakeClock
from sloppyjobs.storage.ports.schedules import PassedOver
from sloppyjobs.views import JobRow, Page
from webui.security import CONTENT_SECURITY_POLICY
from webui.views.recurring import entries

PAGES = (
    *EVERY_PAGE.values(),
    "/?range=24h",
    "/jobs?status=scheduled&order=run_at",
    "/jobs?range=1h&queue=emails&name=send-email",
)
ASKING_LITTLE = tuple(path for path in PAGES if not path.startswith("/find"))
"""All but the one that looks for everything."""


@pytest.fixture(scope="module")
def places(unchanged: Jobs) -> Addresses:
    return Addresses(unchanged)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_served_with_its_headers(onlooker: Client, places: Addresses, path: str) -> None:
    response = onlooker.get(places.fill(path))
    assert response.status_code == 200
    assert response.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "HX-Request" in response.headers["Vary"]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_neither_inline_script_nor_inline_style(onlooker: Client, places: Addresses, path: str) -> None:
    text = onlooker.get(places.fill(path)).text
    assert "<style" not in text
    assert ' style="' not in text
    assert "javascript:" not in text
    assert " onclick" not in text
    assert "<script>" not in text


@pytest.mark.parametrize("path", ASKING_LITTLE)
def test_a_page_asks_at_most_thirteen_queries(played: Jobs, path: str) -> None:
    counted: list[str] = []
    played.admin.list_locks()  # the first use of a process checks the schema
    client = Client(make_app(played).test_client())
    address = Addresses(played).fill(path)
    event.listen(played.storage.engine, "before_cursor_execute", lambda *given: counted.append(given[2]))
    assert client.get(address).status_code == 200
    assert len(counted) <= 13, "\n".join(counted)


def test_no_page_shows_a_secret(admin: Client, played: Jobs) -> None:
    addresses = list(map(Addresses(played).fill, PAGES))
    ids = [job.id for job in played.admin.list_jobs(page_size=200)]
    for path in (*addresses, *(f"/jobs/{id}" for id in ids)):
        assert scene.SECRET not in admin.get(path).text, path


def test_a_dead_job_says_why_and_offers_what_is_allowed(admin: Client, played: Jobs) -> None:
    job = played.admin.list_jobs("dead", name="send-email")[0]
    text = admin.get(f"/jobs/{job.id}").text
    assert "It is dead: attempt 2 of 2 failed" in text
    assert f'action="{PREFIX}/jobs/{job.id}/retry"' in text
    assert f'href="{PREFIX}/jobs/{job.id}/delete"' in text
    assert f"/jobs/{job.id}/cancel" not in text
    assert f"/jobs/{job.id}/pause" not in text
    assert "redacted" in text


@pytest.mark.parametrize("status", ["scheduled", "queued", "processing", "succeeded", "dead", "cancelled", "paused"])
def test_buttons_are_exactly_those_of_the_state_machine(admin: Client, played: Jobs, status: str) -> None:
    job = played.admin.list_jobs(status)[0]
    text = admin.get(f"/jobs/{job.id}").text
    names = {"run": "run_now"}
    for command in ("retry", "run", "pause", "resume", "cancel", "delete"):
        offered = f'{PREFIX}/jobs/{job.id}/{command}"' in text
        assert offered == (names.get(command, command) in job.actions), command


def test_the_list_is_walked_by_cursors_forth_and_back(admin: Client, played: Jobs) -> None:
    first = admin.get("/jobs?size=25")
    following = _link(first.text, "next")
    second = admin.client.get(following, headers=admin.headers)
    assert second.status_code == 200
    assert "row-job_" in second.text
    back = admin.client.get(_link(second.text, "prev"), headers=admin.headers)
    assert _rows(back.text) == _rows(first.text)
    assert not set(_rows(first.text)) & set(_rows(second.text))


def test_a_cursor_goes_on_within_a_relative_range(admin: Client) -> None:
    first = admin.get("/jobs?size=25&range=1h")
    assert admin.client.get(_link(first.text, "next"), headers=admin.headers).status_code == 200


def test_a_forged_cursor_is_told_and_leaves_the_filters(admin: Client) -> None:
    response = admin.get("/jobs?cursor=forged&queue=emails")
    assert response.status_code == 400
    assert "cursor" in response.text
    assert 'name="queue" value="emails"' in response.text


def test_a_larger_page_size_is_clamped(admin: Client) -> None:
    response = admin.get("/jobs?size=100000")
    assert response.status_code == 200
    assert 'href="/admin/jobs/jobs?size=100" aria-current="true"' in response.text


def test_sorting_comes_from_an_allow_list(admin: Client) -> None:
    assert admin.get("/jobs?order=created_at;drop table jobs").status_code == 200
    assert admin.get("/jobs?order=created_at").status_code == 200


def test_empty_pages_explain_the_next_step(jobs: Jobs) -> None:
    client = Client(make_app(jobs).test_client())
    assert "jobs.enqueue" in client.get("/").text
    assert "jobs.enqueue" in client.get("/jobs").text
    assert "jobs.recurring" in client.get("/recurring").text
    assert "worker" in client.get("/workers").text
    assert "jobs.lock" in client.get("/locks").text
    assert "No dead jobs" in client.get("/dead").text
    assert "who did it, when and why" in client.get("/audit").text


def test_times_are_shown_in_the_chosen_zone(admin: Client) -> None:
    assert " UTC" in admin.get("/").text
    response = admin.post("/preferences", {"tz": "Asia/Tokyo", "theme": "dark", "here": f"{PREFIX}/queues"})
    assert response.status_code == 303
    assert response.headers["Location"] == f"{PREFIX}/queues"
    text = admin.get("/").text
    assert " JST" in text
    assert 'data-theme="dark"' in text


def test_a_zone_that_does_not_exist_is_refused_in_words(admin: Client) -> None:
    admin.post("/preferences", {"tz": "Mars/Olympus", "here": "//evil.example"})
    text = admin.get("/locks").text
    assert "There is no such time zone" in text
    assert "Mars" not in text


def test_a_running_job_shows_the_fields_of_its_progress(admin: Client, played: Jobs) -> None:
    [job] = [job for job in played.admin.list_jobs(status="processing") if job.locked_by == "app-2:3380"][:1]
    fields = f'{{"tiles":1240,"folders":["<b>large</b>"],"api_token":"{scene.SECRET}"}}'
    assert played.storage.set_progress("app-2:3380", (job.id, job.attempt_count), None, "tiles written", fields)
    page = admin.get(f"/jobs/{job.id}").text
    assert "tiles written" in page
    assert "1240" in page
    assert "&lt;b&gt;large&lt;/b&gt;" in page
    assert scene.SECRET not in page
    assert 'role="progressbar"' not in page, "how far it is, is not known"
    assert "tiles written" in admin.get("/jobs?status=processing").text


def test_unknown_addresses_jobs_queues_and_schedules_are_404_pages(admin: Client) -> None:
    for path in ("/nope", "/jobs/job_x", "/queues/nope", "/recurring/nope"):
        response = admin.get(path)
        assert response.status_code == 404, path
        assert "404" in response.text
        assert "Skip to content" in response.text


def _link(text: str, rel: str) -> str:
    found = re.search(rf'href="([^"]+)" rel="{rel}"', text)
    assert found is not None
    return html.unescape(found[1])


def _rows(text: str) -> list[str]:
    return re.findall(r'id="row-(job_\w+)"', text)


def test_every_page_works_on_postgresql_within_thirteen_queries(postgres_url: str) -> None:
    jobs = Jobs(postgres_url)
    scene.play(jobs)
    client = Client(make_app(jobs).test_client())
    counted: list[str] = []
    jobs.admin.list_locks()
    event.listen(jobs.storage.engine, "before_cursor_execute", lambda *given: counted.append(given[2]))
    dead = jobs.admin.list_jobs("dead")[0].id
    for path in list(map(Addresses(jobs).fill, PAGES)):
        counted.clear()
        response = client.get(path)
        assert response.status_code == 200, path
        assert scene.SECRET not in response.text, path
        assert len(counted) <= 13 or path.startswith("/find"), (path, counted)
    assert client.post(f"/jobs/{dead}/retry").status_code == 303
    assert jobs.get(dead).status == "queued"
    jobs.storage.close()


def test_a_schedule_shows_what_it_fired_and_what_it_did_not_and_why(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'nights.db'}"
    scene.nights(url, datetime(2030, 5, 20, 12, tzinfo=UTC))
    jobs = Jobs(url)
    scene.define(jobs)
    jobs.admin.trigger_recurring("nightly-rollup", actor="ops")
    missed = jobs.admin.get_recurring("nightly-rollup").missed
    assert [(one.outcome, one.reason) for one in missed] == [("skipped", "paused"), ("collapsed", "run-once")]
    text = Client(make_app(jobs).test_client()).get("/recurring/nightly-rollup").text
    places = [text.index(words) for words in ("The schedule was paused", "the latest fired for all")]
    assert places == sorted(places)
    assert "by hand" in text
    fired = [found.start() for found in re.finditer("</svg> fired<", text)]
    assert len(fired) == len(jobs.admin.list_jobs(schedule="nightly-rollup")) - 1
    assert fired[0] < places[0] < fired[-1]
    assert places[1] < fired[-1]
    jobs.storage.close()


def test_what_was_passed_over_is_on_the_page_of_its_time_and_on_no_other() -> None:
    def instant(day: int) -> datetime:
        return datetime(2030, 5, day, tzinfo=UTC)

    def passed(day: int) -> PassedOver:
        return PassedOver(
            first=instant(day), last=instant(day), number=1, outcome="skipped", reason="paused", decided_at=instant(28)
        )

    def job(day: int) -> JobRow:
        moments = dict.fromkeys(("run_at", "created_at", "updated_at", "occurrence_at"), instant(day))
        return JobRow(
            id=f"job_{day}", name="n", queue="q", status=Status.SUCCEEDED, priority=0, attempt_count=1,
            max_attempts=1, **moments,  # type: ignore[arg-type]
        )  # fmt: skip

    missed = [passed(25), passed(15), passed(5)]
    pages = [
        Page((job(20), job(16)), next_cursor="n"),
        Page((job(14), job(10)), next_cursor="n", previous_cursor="p"),
        Page((job(8), job(2)), previous_cursor="p"),
    ]
    following = [*pages[1:], None]
    shown = [[entry.at.day for entry in entries(*both)] for both in zip(pages, [missed] * 3, following, strict=True)]
    assert shown == [[25, 20, 16, 15], [14, 10], [8, 5, 2]]


def test_tiles_say_how_the_counts_changed(tmp_path: Path) -> None:
    start = datetime(2030, 5, 20, 12, 0, 30, tzinfo=UTC)
    clock = FakeClock(start)
    jobs = Jobs(storage.sqlite(f"sqlite:///{tmp_path / 'tiles.db'}", clock=clock))
    jobs.storage.init()

    @jobs.define("work", retry=Retry(max_attempts=1))
    def work(ctx: object, payload: dict[str, bool]) -> None:
        if payload["fails"]:
            raise ValueError

    worker = jobs.create_worker(id="w", concurrency=7, recurring=False)
    for fails in (True, False, False, False):
        jobs.enqueue("work", {"fails": fails})
    worker.run_once()
    jobs.enqueue("work", {"fails": False}, delay=86_400)
    clock.advance(3660)
    for fails in (True, True, False):
        jobs.enqueue("work", {"fails": fails})
    worker.run_once()
    jobs.enqueue("work", {"fails": False}, delay=86_400)
    text = Client(make_app(jobs).test_client()).get("/").text
    tiles = {name: " ".join(re.sub(r"<[^>]+>", " ", tile).split()) for name, tile in _tiles(text).items()}
    assert "Scheduled 2 1 new in 1 h oldest" in tiles["scheduled"]
    assert "Succeeded 4 1 in 1 h down 2" in tiles["succeeded"]
    assert "Dead 3 2 died in 1 h up 1" in tiles["dead"]
    assert "Cancelled 0 none in 1 h as before" in tiles["cancelled"]
    assert "no live worker" in tiles["processing"]
    jobs.storage.close()


def _tiles(text: str) -> dict[str, str]:
    section = text.partition('aria-label="Jobs by status"')[2].partition("</section>")[0]
    return {
        found[1]: found[0] for found in re.finditer(r'<a href[^>]*><span class="st (\w+)">.*?</a>', section, re.DOTALL)
    }
