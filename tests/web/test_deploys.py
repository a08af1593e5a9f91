"""Deploys in the charts, in the lists of workers, in the API, and who sees them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
import scene
from flask import Flask
from hosts import PREFIX, Client, RolePolicy, make_app

from sloppyjobs import Jobs, storage
from sloppyjobs.testing import FakeClock
from sloppyjobs.views import DeployView
from webui.deploy_marks import MOST, Mark, marks
from webui.policy import Resource

START = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = 3600.0
API = f"{PREFIX}/api/v1/deploys"
BEARER = {"Authorization": "Bearer t0k3n"}
HOSTILE = '"><script>alert(1)</script>'
PAGES = ("/", "/job-types/send-email?range=7d", "/queues/emails")


def _text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def _deploys(*minutes: float, version: str = "v{}") -> list[DeployView]:
    """Deploys so many minutes after the start, latest first."""
    made = [
        DeployView(number=number, version=version.format(number), created_at=START + timedelta(minutes=minute))
        for number, minute in enumerate(sorted(minutes), 1)
    ]
    return made[::-1]


# Geometry


def test_a_mark_stands_where_its_time_is() -> None:
    found = marks(_deploys(-1, 0, 15, 60, 61), START, HOUR)
    assert [(one.deploy.number, one.place) for one in found.drawn] == [(2, 0.0), (3, 25.0), (4, 100.0)]
    assert [one.anchor for one in found.drawn] == ["start", "middle", "end"]


def test_a_chart_without_a_span_has_no_marks() -> None:
    assert marks(_deploys(5), START, 0.0).listed == ()


def test_labels_never_touch_and_the_latest_deploy_has_one() -> None:
    found = marks(_deploys(*range(0, 60, 3), version="templates {}"), START, HOUR)
    assert len(found.drawn) == MOST
    assert len(found.listed) == 20
    assert found.drawn[-1].shown == "always"
    for shown, each in ((("always",), 2.7), (("always", "wide"), 1.8)):
        drawn = [one for one in found.drawn if one.shown in shown]
        spans = [_span(one, each) for one in drawn]
        assert all(before[1] < after[0] for before, after in pairwise(spans))


def _span(one: Mark, each: float) -> tuple[float, float]:
    width = each * len(one.label)
    start = one.place - {"start": 0.0, "middle": width / 2, "end": width}[one.anchor]
    return start, start + width


def test_a_long_version_is_truncated_in_its_label() -> None:
    [mark] = marks(_deploys(5, version="x" * 128), START, HOUR).drawn
    assert (len(mark.label), mark.label[-1], len(mark.said)) == (14, "…", 26)


# Pages


@pytest.mark.parametrize("path", PAGES)
def test_charts_show_deploys_as_marks_as_text_and_in_their_table(admin: Client, played: Jobs, path: str) -> None:
    played.admin.mark_deploy("shop 119", "new templates", actor="ada")
    html = admin.get(path).text
    assert html.count('<path class="mark"') >= 2
    assert re.search(r'<g class="deploy"[^>]*tabindex="0"[^>]*aria-label="Deploy of shop 119, ', html)
    assert re.search(r'<svg[^>]*role="img"[^>]*aria-label="[^"]*; Deploy of shop 119, ', html)
    [table] = re.findall(r"<caption[^>]*>Deploys in this time.*?</table>", html, re.DOTALL)[:1]
    assert "shop 119" in table
    assert "marked by ada: new templates" in _text(table)
    assert " style=" not in html


@pytest.mark.parametrize("path", PAGES)
def test_without_deploys_charts_are_as_before(admin: Client, path: str) -> None:
    html = admin.get(path).text
    assert 'class="mark"' not in html
    assert "Deploys" not in html


@pytest.mark.parametrize("path", PAGES)
def test_hostile_versions_and_notes_are_only_text(admin: Client, played: Jobs, path: str) -> None:
    played.admin.mark_deploy(HOSTILE, HOSTILE, actor=HOSTILE)
    html = admin.get(path).text
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "<script>alert" not in admin.get("/audit").text


@pytest.mark.parametrize(("seconds", "slower"), [(2.0, True), (1.1, False)])
def test_a_job_type_says_how_it_does_since_the_latest_deploy(
    ready_sqlite_url: str, seconds: float, slower: bool
) -> None:
    clock = FakeClock(datetime.now(UTC) - timedelta(minutes=30))
    jobs = Jobs(storage.from_url(ready_sqlite_url, clock=clock))
    jobs.declare("render")
    client = Client(make_app(jobs).test_client())
    _runs(jobs, clock, 1.0)
    jobs.admin.mark_deploy("shop 119")
    assert "of the run time was" not in _text(client.get("/job-types/render").text)
    _runs(jobs, clock, seconds)
    page = client.get("/job-types/render").text
    said = f"p50 of the run time was 1 s before (20 runs) and is {seconds:g} s since (20 runs)."
    assert said in _text(page)
    assert ("Slower since shop 119" in page) is slower
    jobs.storage.close()


def _runs(jobs: Jobs, clock: FakeClock, seconds: float) -> None:
    for _ in range(20):
        jobs.enqueue("render")
        [claim] = jobs.claim("w1")
        clock.advance(seconds)
        assert jobs.complete(claim)


def test_workers_show_the_version_of_their_application(admin: Client, played: Jobs) -> None:
    id = scene.worker(played)
    assert "Application shop 119" in _text(admin.get(f"/workers/{id}").text)
    assert "shop 119" in _text(admin.get("/workers").text)
    assert played.admin.list_deploys()[0].worker_id == id


class NoDeploys(RolePolicy):
    """Somebody who may do everything but see deploys."""

    def can(self, actor: Any, action: str, resource: Resource) -> bool:
        """As their role, without these."""
        return not action.startswith("deploy.") and super().can(actor, action, resource)


class Scoped(RolePolicy):
    """Somebody who sees one queue."""

    def scope(self, actor: Any) -> tuple[str, ...] | None:
        """The emails."""
        return ("emails",)


@pytest.mark.parametrize("policy", [NoDeploys, Scoped])
def test_who_may_not_see_deploys_sees_none(played: Jobs, policy: type[RolePolicy]) -> None:
    played.admin.mark_deploy("shop 119")
    client = Client(make_app(played, policy()).test_client())
    for path in PAGES:
        page = client.get(path)
        assert page.status_code == 200
        assert "shop 119" not in page.text


# API


def test_a_deploy_is_marked_and_listed_by_the_api(app: Flask, played: Jobs) -> None:
    client = app.test_client()
    made = client.post(API, json={"version": "119", "note": "fonts", "reason": "release"}, headers=BEARER).json
    assert (made["version"], made["note"], made["existing"]) == ("119", "fonts", False)
    assert client.post(API, json={"version": "119"}, headers=BEARER).json["existing"] is True
    assert [one["version"] for one in client.get(API, headers=BEARER).json["items"]] == ["119"]
    entry = played.admin.audit("119")[0]
    assert (entry.action, entry.reason, entry.actor) == ("mark_deploy", "release", made["actor"])


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"version": ""},
        {"version": "v" * 129},
        {"version": "a\u0000b"},
        {"version": 7},
        {"version": "1", "note": 7},
    ],
    ids=lambda body: str(body)[:30],
)
def test_what_cannot_be_shown_is_refused_by_the_api(app: Flask, played: Jobs, body: dict[str, Any]) -> None:
    answer = app.test_client().post(API, json=body, headers=BEARER)
    assert answer.status_code == 400
    field = "note" if "note" in body else "version"
    assert field in answer.json["error"]["message"].lower()
    assert list(played.admin.list_deploys()) == []


def test_read_only_refuses_to_mark_and_still_lists(played: Jobs) -> None:
    played.admin.mark_deploy("119")
    client = make_app(played, read_only=True).test_client()
    assert client.post(API, json={"version": "120"}, headers=BEARER).status_code == 403
    assert len(client.get(API, headers=BEARER).json["items"]) == 1


def test_the_trend_of_a_cause_shows_deploys(admin: Client, played: Jobs) -> None:
    played.admin.mark_deploy("shop 204", actor="ada")
    shown = admin.get(f"/dead/{played.admin.dead_groups()[0].cause}").text
    assert shown.count('<path class="mark"') == 1
    assert re.search(r'aria-label="Deaths per hour[^"]*; Deploy of shop 204, ', shown)
    assert "marked by ada" in shown
