"""What a job's page says, and to whom."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import growth
import pytest
from hosts import PREFIX, Client, RolePolicy, make_app

from sloppyjobs import After, Jobs, Retry, Snooze, storage
from sloppyjobs.domain.states import Status
from sloppyjobs.storage import FakeClock
from sloppyjobs.testing.conformance import admin_scenes as scenes
from sloppyjobs.views import EventView
from webui.views.job import WIDTH, Segment, segments

START = datetime(2030, 1, 1, 12, tzinfo=UTC)
WHY = re.compile(r'<section class="panel why.*?</section>', re.DOTALL)
_TAGS = re.compile(r"<[^>]+>")
_SPACE = re.compile(r"\s+")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture
def jobs(ready_sqlite_url: str, clock: FakeClock) -> Iterator[Jobs]:
    """Jobs of a database with a clock of its own."""
    made = Jobs(storage.from_url(ready_sqlite_url, clock=clock))
    yield made
    made.storage.close()


@pytest.fixture
def admin(jobs: Jobs) -> Client:
    return Client(make_app(jobs).test_client())


def words(markup: str) -> str:
    """What is read of it."""
    return _SPACE.sub(" ", _TAGS.sub("", markup)).strip()


def verdict(text: str) -> str:
    """The panel with the verdict, as it is read."""
    found = WHY.search(text)
    assert found is not None
    return words(found[0])


def page_of(admin: Client, id: str) -> str:
    response = admin.get(f"/jobs/{id}")
    assert response.status_code == 200
    return response.text


def test_a_job_that_died_early_says_why_it_was_not_tried_again(jobs: Jobs, admin: Client) -> None:
    job = scenes.queued(jobs, retry=Retry(max_attempts=3, give_up_on=ValueError))
    [claim] = jobs.claim("worker_1", queues=[job.queue])
    assert jobs.fail(claim, ValueError("no such user"))
    text = verdict(page_of(admin, job.id))
    assert "It died on attempt 1 of 3: ValueError is not retried by this job&#39;s retry policy." in text
    assert "Retry queues it now as attempt 2, with its full number of attempts again." in text


def test_times_in_the_verdict_are_in_the_viewers_zone_and_name_it(jobs: Jobs, admin: Client) -> None:
    job = scenes.queued(jobs, run_at=START + timedelta(hours=6))
    assert "at Tue 1 Jan 2030, 18:00:00 UTC." in verdict(page_of(admin, job.id))
    admin.post("/preferences", {"tz": "Asia/Tokyo"})
    assert "at Wed 2 Jan 2030, 03:00:00 JST." in verdict(page_of(admin, job.id))
    admin.post("/preferences", {"tz": "America/Sao_Paulo"})
    assert "at Tue 1 Jan 2030, 15:00:00 UTC-03." in verdict(page_of(admin, job.id))


def test_the_api_and_the_admin_keep_utc(jobs: Jobs, admin: Client) -> None:
    job = scenes.queued(jobs, run_at=START + timedelta(hours=6))
    admin.post("/preferences", {"tz": "Asia/Tokyo"})
    expected = "It is not due yet: it is due in 6 h, at 2030-01-01 18:00:00 UTC."
    assert jobs.admin.explain(job.id).verdict == expected
    answer = admin.get(f"/api/v1/jobs/{job.id}/explain", headers={"Authorization": "Bearer t0k3n"}).json
    assert answer["verdict"] == expected
    assert answer["reasons"][0] == {"code": "not_due", "text": expected, "until": "2030-01-01T18:00:00Z"}


def test_a_poll_about_a_job_that_has_not_changed_is_answered_with_304(jobs: Jobs, admin: Client) -> None:
    scenes.live_worker(jobs)
    job = scenes.succeeded(jobs)
    tag = admin.get(f"/jobs/{job.id}", headers={"HX-Request": "true"}).headers["HX-PTag"]
    again = admin.get(f"/jobs/{job.id}", headers={"HX-Request": "true", "HX-PTag": tag})
    assert again.status_code == 304


def test_hostile_text_in_a_verdict_is_escaped(jobs: Jobs, admin: Client) -> None:
    evil = "<script>alert(1)</script>"
    dead = scenes.dead(jobs, evil)
    held = scenes.running(jobs, f"w-{evil}")
    cancelled = scenes.queued(jobs)
    jobs.admin.cancel(cancelled.id, actor=evil, reason=evil)
    for job in (dead, held, cancelled):
        text = page_of(admin, job.id)
        assert "&lt;script&gt;alert(1)" in text
        assert "<script>alert" not in text


def test_a_worker_that_is_gone_is_not_said_to_renew_its_lease(jobs: Jobs, admin: Client, clock: FakeClock) -> None:
    scenes.live_worker(jobs, heartbeat=5.0)
    job = scenes.running(jobs)
    text = verdict(page_of(admin, job.id))
    assert "Running now" in text
    assert "renews its lease" in text
    clock.advance(16)
    text = verdict(page_of(admin, job.id))
    assert "Its worker is gone" in text
    assert "Worker worker_1 stopped responding" in text
    assert "Then the next worker that starts takes the job over as attempt 2 of 3." in text
    assert "renews" not in text


def test_a_job_that_overran_its_timeout_says_so(jobs: Jobs, admin: Client, clock: FakeClock) -> None:
    worker = scenes.live_worker(jobs)
    job = scenes.queued(jobs, timeout=30)
    [claim] = jobs.claim(worker.id, queues=[job.queue])
    assert jobs.extend(claim, 600)
    clock.advance(240)
    jobs.storage.workers.heartbeat(worker)
    text = verdict(page_of(admin, job.id))
    assert "Running longer than its timeout" in text
    assert "longer than its timeout of 30 s, and worker_1 has not ended it" in text


def test_a_cancel_reason_is_a_reason_and_no_error(jobs: Jobs, admin: Client) -> None:
    job = scenes.running(jobs)
    jobs.admin.cancel(job.id, actor="ada", reason="superseded")
    text = page_of(admin, job.id)
    assert "Cancelled by ada at" in verdict(text)
    assert ": superseded. It will not run again." in verdict(text)
    assert "Error of attempt" not in text
    assert "SLOPPY_E_JOBS_CANCELLED" not in text.replace("<wbr>", "")


def test_a_snooze_is_no_error(jobs: Jobs, admin: Client) -> None:
    jobs.define("later", lambda ctx, payload: Snooze(60))
    job = jobs.enqueue("later")
    jobs.create_worker(recurring=False).run_once()
    text = page_of(admin, job.id)
    assert "Last attempt: the handler asked to be called again in 60 s" in verdict(text)
    assert "Error of attempt" not in text
    assert "SLOPPY_E_JOBS_SNOOZED" not in text.replace("<wbr>", "")


def test_a_paused_job_says_by_whom_and_where_it_returns_to(jobs: Jobs, admin: Client) -> None:
    job = scenes.queued(jobs, delay=60)
    jobs.admin.pause(job.id)
    assert "Paused. Resuming returns it to Scheduled." in verdict(page_of(admin, job.id))


# The schedule that made it


@pytest.fixture
def fired(jobs: Jobs) -> str:
    """The id of a job that a schedule made."""
    scenes.declared(jobs).recurring("nightly rollup", scenes.NAME, {}, cron="0 2 * * *")
    return jobs.admin.trigger_recurring("nightly rollup").id


def test_the_schedule_that_made_a_job_is_named_and_linked(admin: Client, fired: str) -> None:
    text = page_of(admin, fired)
    assert "Made by nightly rollup" in words(text)
    assert f'href="{PREFIX}/recurring/nightly%20rollup"' in text
    assert f'href="{PREFIX}/jobs?schedule=nightly+rollup"' in text
    assert "nightly rollup" in words(admin.get("/recurring/nightly%20rollup").text)


def test_who_may_not_see_schedules_gets_no_link_to_one(jobs: Jobs, fired: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RolePolicy.roles, "narrow", lambda action: action == "job.view")
    text = page_of(Client(make_app(jobs).test_client(), "narrow"), fired)
    assert "Made by nightly rollup" in words(text)
    assert "/recurring/" not in text


def test_a_schedule_that_is_gone_is_not_named(jobs: Jobs, admin: Client, fired: str) -> None:
    jobs.admin.delete_recurring("nightly rollup")
    assert "Made by a schedule that no longer exists" in words(page_of(admin, fired))


def test_naming_the_schedule_costs_no_statement(jobs: Jobs, admin: Client, fired: str) -> None:
    def sent(id: str) -> int:
        page_of(admin, id)
        with growth.sent(jobs) as statements:
            page_of(admin, id)
        return len(statements)

    jobs.admin.cancel(fired)
    other = scenes.queued(jobs)
    jobs.admin.cancel(other.id)
    assert sent(fired) == sent(other.id) <= 10


# Words


def test_headers_and_cells_of_the_attempts_agree(jobs: Jobs, admin: Client) -> None:
    text = page_of(admin, scenes.dead(jobs).id)
    table = text[text.index("<table") : text.index("</table>")]
    headers = [words(one) for one in re.findall(r"<th [^>]*columnheader.*?</th>", table, re.DOTALL)]
    labels = re.findall(r'data-l="([^"]*)"', table)
    assert "Seconds" not in headers
    assert set(labels) <= set(headers)
    assert labels.count("Duration") == 1


@pytest.mark.parametrize(
    ("command", "said"),
    [("retry", "Queued again, with its full number of attempts."), ("delete", "Deleted.")],
)
def test_what_was_done_is_said_in_plain_words(jobs: Jobs, admin: Client, command: str, said: str) -> None:
    id = scenes.dead(jobs).id
    assert admin.post(f"/jobs/{id}/{command}").status_code == 303
    assert said in page_of(admin, id)


def test_every_disclosure_has_an_id_of_its_own(jobs: Jobs, admin: Client) -> None:
    payload = {"a b": {"c": [1, {"d": 2}]}, "e": {"c": []}}
    job = scenes.declared(jobs).enqueue(scenes.NAME, payload, max_attempts=1, metadata={"team": "data"})
    [claim] = jobs.claim("worker_1", queues=[job.queue])
    assert jobs.fail(claim, "no")
    live = page_of(admin, job.id).partition('id="live"')[2].partition("</main>")[0]
    details = re.findall(r"<details([^>]*)>", live)
    ids = [found[1] for one in details if (found := re.search(r'id="([^"\s]+)"', one))]
    assert len(details) == len(ids) == len(set(ids)) == 7


def test_no_page_uses_words_that_operators_do_not(jobs: Jobs, admin: Client) -> None:
    ids = [scenes.in_status(jobs, status).id for status in scenes.REACHABLE]
    pages = [page_of(admin, id) for id in ids]
    pages += [admin.get(f"/jobs/{ids[0]}/{command}").text for command in ("retry", "cancel", "delete", "pause")]
    for text in map(words, pages):
        for banned in ("budget", "heard of", "Cut to a bound", "sweep", "goes on", "settled", "resumed, it is"):
            assert banned not in text


# The bar


def event(status: Status, seconds: float, number: int = 0) -> EventView:
    return EventView(
        id=f"event_{number}",
        job_id="job_1",
        event_type="x",
        from_status=None,
        to_status=status,
        created_at=START + timedelta(seconds=seconds),
    )


def bar(*steps: tuple[Status, float], until: float | None) -> list[Segment]:
    moment = None if until is None else START + timedelta(seconds=until)
    return segments([event(status, seconds) for status, seconds in steps], moment)


RETRIED: tuple[tuple[Status, float], ...] = (
    (Status.QUEUED, 0),
    (Status.PROCESSING, 10),
    (Status.FAILED, 40),
    (Status.DEAD, 40),
    (Status.QUEUED, 90_000),
    (Status.PROCESSING, 90_010),
)


def assert_whole(found: list[Segment]) -> None:
    """Nothing of the bar is blank: each segment begins where the one before ends, and the last ends with the bar."""
    places: list[Any] = [*(one.x for one in found), WIDTH]
    assert places[0] == 0
    for one, following in zip(found, places[1:], strict=True):
        assert one.x + one.width == pytest.approx(following, abs=1.0), found


def test_the_bar_of_a_job_that_was_retried_and_died_again_has_no_blank() -> None:
    found = bar(*RETRIED, (Status.FAILED, 90_040), (Status.DEAD, 90_040), until=200_000)
    assert_whole(found)
    assert [one.status for one in found] == ["queued", "processing", "dead", "queued", "processing"]
    rest = found[2]
    assert (rest.seconds, rest.to_scale) == (89_960, False)
    # Days of being dead do not hide the runs.
    assert rest.width < 10 < found[1].width
    assert found[1].width == pytest.approx(found[4].width)


def test_the_bar_of_a_job_that_was_retried_and_runs_has_no_blank() -> None:
    found = bar(*RETRIED, until=90_050)
    assert_whole(found)
    assert found[-1].status == "processing"
    assert found[-1].seconds == 40


def test_the_bar_of_a_job_that_was_deleted_long_after_it_ended_is_not_blank() -> None:
    steps = ((Status.QUEUED, 0), (Status.PROCESSING, 1), (Status.SUCCEEDED, 3), (Status.DELETED, 900_000))
    found = bar(*steps, until=900_001)
    assert_whole(found)
    assert [one.status for one in found] == ["queued", "processing", "succeeded"]


def test_a_page_of_events_that_is_not_the_last_ends_with_its_last_event() -> None:
    assert_whole(bar((Status.QUEUED, 0), (Status.PROCESSING, 10), (Status.RETRYING, 40), until=None))


def test_a_job_without_a_past_has_no_bar() -> None:
    assert bar(until=5) == []
    assert bar((Status.CANCELLED, 0), until=5) == []
    assert bar((Status.QUEUED, 0), until=0) == []


def test_the_page_names_what_a_job_waits_for_and_what_waits_for_it(jobs: Jobs, admin: Client) -> None:
    first, second, third = (scenes.queued(jobs, queue="q") for _ in range(3))
    middle = scenes.queued(jobs, depends_on=[first, second, third])
    last = scenes.queued(jobs, depends_on=After(middle, on="failure"))
    text = page_of(admin, middle.id)
    assert f"It waits for 3 jobs: {first.name} ({first.id}) is queued" in verdict(text)
    assert all(f'href="{PREFIX}/jobs/{job.id}"' in text for job in (first, second, third, last))
    assert "Waits for" in text and "needed to fail" in text
    jobs.admin.cancel(first.id)
    assert "ended otherwise" in page_of(admin, middle.id)
    assert 'id="dependencies"' not in page_of(admin, scenes.queued(jobs).id)


def test_what_a_job_waits_for_in_another_queue_is_not_told(jobs: Jobs) -> None:
    class OneQueue(RolePolicy):
        def scope(self, actor: Any) -> Any:
            return ["ours"]

    hidden = scenes.queued(jobs, queue="theirs")
    job = scenes.queued(jobs, queue="ours", depends_on=hidden)
    child = scenes.queued(jobs, queue="theirs", depends_on=job)
    text = page_of(Client(make_app(jobs, policy=OneQueue()).test_client()), job.id)
    assert "It waits for a job in another queue, which is queued." in verdict(text)
    assert hidden.id not in text and child.id not in text


def test_the_page_shows_tags_keys_and_who_took_its_place(jobs: Jobs, admin: Client) -> None:
    old = scenes.queued(jobs, business_key="account:42", tags=("eu", "vip"), delay=60)
    new = scenes.queued(jobs, business_key="account:42", on_conflict="replace", expires=300)
    text = page_of(admin, old.id)
    assert f'<a class="tag" href="{PREFIX}/jobs?tag=eu">eu</a>' in text
    assert f'href="{PREFIX}/jobs?business_key=account:42"' in text
    assert f"job {new.id} has taken its place" in verdict(text)
    newer = page_of(admin, new.id)
    assert f'href="{PREFIX}/jobs/{old.id}"' in newer and "unless it has started" in newer
    assert "eu</span>" in admin.get("/jobs?tag=eu").text and new.id not in admin.get("/jobs?tag=eu").text


def test_a_job_without_a_worker_says_how_to_start_one(jobs: Jobs, admin: Client) -> None:
    assert "Start a worker: sloppyjobs worker --queue &#39;a b&#39;" in verdict(
        page_of(admin, scenes.queued(jobs, queue="a b").id)
    )
    assert "Start a worker" not in page_of(admin, scenes.queued(jobs, queue="a b", delay=600).id)
    assert "Start a worker" not in page_of(admin, scenes.running(jobs, "w").id)


def test_metadata_with_parts_is_a_tree_and_no_python(jobs: Jobs, admin: Client) -> None:
    metadata = {"team": "data", "dry": True, "none": None, "flags": {"colour": {"deep": [1]}}, "ids": [7, 8]}
    job = scenes.declared(jobs).enqueue(scenes.NAME, metadata=metadata)
    with jobs.workflow("one", metadata=metadata) as flow:
        flow.add(scenes.NAME, queue="q")
    for page in (page_of(admin, job.id), admin.get(f"/workflows/{flow.id}").text):
        text = words(page)
        assert re.search(r"team\s*data\s*dry\s*true\s*none\s*null", text)
        assert re.search(r"colour\s*1 key\s*deep\s*1 item\s*0\s*: 1", text)
        assert "True" not in text and "{&#39;" not in page and "{'" not in page


@pytest.mark.parametrize(("payload", "shown"), [(None, "null"), (False, "false"), (0, "0"), ("", '""')])
def test_a_payload_that_is_next_to_nothing_is_shown_as_it_is(
    jobs: Jobs, admin: Client, payload: Any, shown: str
) -> None:
    jobs.declare("note")
    text = page_of(admin, jobs.enqueue("note", payload).id)
    assert "Unavailable" not in text
    found = re.search(r'<div class="tree"[^>]*>(.*?)</div>', text, re.DOTALL)
    assert found is not None and words(found[1]) == shown
