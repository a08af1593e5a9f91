"""The pages and the API of workflows: the list, the graph, cancel and retry as a whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from html import unescape
from typing import Any

import msgspec
import pytest
import scene
from flask import Flask
from hosts import PREFIX, Client

from sloppyjobs import Jobs, Result
from sloppyjobs.domain.states import Status
from sloppyjobs.views import WorkflowJobView, WorkflowLink
from webui import workflow_graph

BEARER = {"Authorization": "Bearer t0k3n"}


@pytest.fixture
def blocked(played: Jobs) -> str:
    """A workflow that a dead job holds up, beside others."""
    return scene.workflow(played)


def _rows(text: str) -> list[str]:
    return re.findall(r'id="row-(flow_\w+)"', text)


def test_workflows_are_listed_by_state_name_and_key(admin: Client, played: Jobs, blocked: str) -> None:
    everything = [flow.id for flow in played.admin.list_workflows()]
    assert _rows(admin.get("/workflows").text) == everything
    assert _rows(admin.get("/workflows?status=blocked").text) == [blocked]
    assert _rows(admin.get("/workflows?name=warehouse-refresh&range=1").text) == [blocked]
    assert _rows(admin.get("/workflows?correlation_id=wh-1").text) == [blocked]
    assert "Nothing found" in admin.get("/workflows?name=other").text
    assert admin.get("/workflows?status=dead").status_code == 422


def test_a_workflow_that_is_not_there_is_called_a_workflow(admin: Client) -> None:
    answer = admin.get("/workflows/flow_none")
    assert answer.status_code == 404
    assert "404: no such workflow" in answer.text


def test_the_jobs_of_a_workflow_are_a_filter_of_the_list(admin: Client, played: Jobs, blocked: str, app: Flask) -> None:
    ids = {job.id for job in played.admin.list_jobs(workflow=blocked)}
    page = admin.get(f"/workflows/{blocked}").text
    assert len(ids) == 12
    assert f"/jobs?workflow={blocked}" in page
    listed = admin.get(f"/jobs?workflow={blocked}").text
    assert set(re.findall(r'id="row-(job_\w+)"', listed)) == ids
    assert f"Workflow: {blocked}" in listed
    assert f"/jobs?workflow={blocked}" in admin.get(f"/jobs/{min(ids)}").text
    found = app.test_client().get(f"{PREFIX}/api/v1/jobs?workflow={blocked}&status=dead", headers=BEARER).json
    assert [job["id"] for job in found["items"]] == [job.id for job in played.admin.list_jobs("dead", workflow=blocked)]


def test_the_page_of_a_workflow_says_what_holds_it_up_and_hides_secrets(
    admin: Client, played: Jobs, blocked: str
) -> None:
    page = admin.get(f"/workflows/{blocked}").text
    assert "A dead job blocks the rest" in page
    assert scene.SECRET not in page
    [blocker] = played.admin.workflow_blockers(blocked)
    assert f"/jobs/{blocker.job_id}" in page
    assert page.count('class="node ') == 12
    assert "if rows &gt; 0" in page
    assert "8 × transform" in page
    assert f"/workflows/{blocked}" in admin.get(f"/jobs/{blocker.job_id}").text
    waiting = next(job for job in played.admin.workflow_jobs(blocked) if job.status == "waiting")
    assert f"/jobs/{blocker.job_id}/retry" in admin.get(f"/jobs/{waiting.id}").text


def test_a_workflow_of_which_nothing_runs_says_why(admin: Client, played: Jobs) -> None:
    with played.workflow("lonely") as flow:
        first = flow.add("export-orders", {}, queue="nobody-works-here")
        flow.add("export-orders", {}, after=first)
    words = " ".join(re.sub(r"<[^>]+>", " ", admin.get(f"/workflows/{flow.id}").text).split())
    assert "No job of it is running. 1 queued, 1 waiting." in words
    assert "export-orders is queued. No live worker for its queue 'nobody-works-here'" in words.replace("&#39;", "'")
    played.claim("w", queues=("nobody-works-here",), names=frozenset({"export-orders"}))
    words = " ".join(re.sub(r"<[^>]+>", " ", admin.get(f"/workflows/{flow.id}").text).split())
    assert "It goes on by itself. 1 processing, 1 waiting." in words
    assert "is queued. No live worker" not in words


@pytest.mark.parametrize(
    ("delay", "paused", "words"),
    [
        (None, True, "No job of it is running. 1 waiting, 1 paused. export-orders is paused. Paused by ada"),
        (3600, False, "No job of it is running. It goes on by itself. 1 scheduled, 1 waiting."),
    ],
    ids=["paused", "scheduled"],
)
def test_a_workflow_goes_on_by_itself_only_where_nobody_is_waited_for(
    admin: Client, played: Jobs, delay: float | None, paused: bool, words: str
) -> None:
    with played.workflow("held") as flow:
        first = flow.add("export-orders", {}, delay=delay)
        flow.add("export-orders", {}, after=first)
    if paused:
        played.admin.pause(next(job.id for job in played.admin.list_jobs("queued", workflow=flow.id)), actor="ada")
    assert words in " ".join(re.sub(r"<[^>]+>", " ", admin.get(f"/workflows/{flow.id}").text).split())
    listed = " ".join(re.sub(r"<[^>]+>", " ", admin.get("/workflows?name=held").text).split())
    assert f"0 of 2 {'1 paused' if paused else '1 scheduled'}" in listed


def test_the_list_says_how_many_run_and_how_many_are_queued(admin: Client, played: Jobs) -> None:
    with played.workflow("two") as flow:
        for _ in range(2):
            flow.add("export-orders", {}, queue="only-here")

    def row() -> str:
        found = re.search(rf'id="row-{flow.id}".*?</tr>', admin.get("/workflows").text, re.DOTALL)
        assert found is not None
        return " ".join(re.sub(r"<[^>]+>", " ", found[0]).split())

    assert "0 of 2 2 queued" in row()
    played.claim("w", queues=("only-here",))
    assert "0 of 2 1 running, 1 queued" in row()


def test_a_graph_is_zoomed_by_links_and_draws_alike_jobs_as_one(admin: Client, played: Jobs, blocked: str) -> None:
    width = re.compile(r'class="graph"\s+viewBox="0 0 (\d+) \d+"\s+width="(\d+)"')
    for zoom, times in (("", 1), ("?zoom=50", 0.5), ("?zoom=150", 1.5), ("?zoom=9999", 1)):
        found = width.search(admin.get(f"/workflows/{blocked}{zoom}").text)
        assert found is not None
        assert int(found[2]) == int(int(found[1]) * times)
    [wide] = played.admin.list_workflows(name="wide")
    page = admin.get(f"/workflows/{wide.id}").text
    assert page.count('class="node ') == 5
    assert "transform (230)" in page
    assert "which leads to all jobs of its name" in page
    [listed] = set(re.findall(rf'href="{PREFIX}(/jobs\?workflow={wide.id}&amp;name=transform)"', page))
    assert admin.get(f"{unescape(listed)}&size=100").text.count("data-row") == 100
    apart = admin.get(f"/workflows/{wide.id}?draw=all").text
    assert apart.count('class="node ') == 234
    assert f'href="{PREFIX}/workflows/{wide.id}#graph"' in apart, "the way back"


def test_a_graph_that_cannot_be_read_is_drawn_when_asked_for(
    admin: Client, blocked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow_graph, "READABLE", 3)
    page = admin.get(f"/workflows/{blocked}").text
    assert "This graph is too large to read" in page
    assert "Condition met" not in page, "a legend of nothing"
    assert "zoom=" not in page
    assert admin.get(f"/workflows/{blocked}?draw=all").text.count('class="node ') == 12


def test_a_workflow_is_retried_and_cancelled_after_a_question(admin: Client, played: Jobs, blocked: str) -> None:
    assert "Retry the dead jobs" in admin.get(f"/workflows/{blocked}/retry").text
    assert admin.post(f"/workflows/{blocked}/retry", {"reason": "mended"}).status_code == 303
    assert "1 job retried." in admin.get(f"/workflows/{blocked}").text
    assert played.admin.get_workflow(blocked).status == "running"
    admin.post(f"/workflows/{blocked}/cancel", {"reason": "wrong plan"})
    page = admin.get(f"/workflows/{blocked}").text
    assert "wrong plan" in page
    assert played.admin.get_workflow(blocked).status == "cancelled"
    admin.post(f"/workflows/{blocked}/cancel")
    assert "Nothing to cancel." in admin.get(f"/workflows/{blocked}").text
    words = re.sub(r"<[^>]+>|\s+", " ", admin.get("/audit").text)
    assert re.search(r"Cancelled the workflow\s+flow_", words)


def test_the_api_has_the_same(app: Flask, blocked: str) -> None:
    api = app.test_client()

    def get(path: str) -> Any:
        return api.get(f"{PREFIX}/api/v1{path}", headers=BEARER).json

    assert get("/workflows?status=blocked")["items"][0]["id"] == blocked
    assert get(f"/workflows/{blocked}")["counts"]["dead"] == 1
    assert len(get(f"/workflows/{blocked}/jobs?status=dead")["items"]) == 1
    assert len(get(f"/workflows/{blocked}/graph")["jobs"]) == 12
    assert get("/workflows?colour=red")["error"]["code"] == "SLOPPY_E_JOBS_INVALID_OPTION"
    done = api.post(f"{PREFIX}/api/v1/workflows/{blocked}/retry", headers=BEARER, json={"reason": "ci"}).json
    assert (done["action"], done["done"]) == ("retry_workflow", 1)
    missing = api.get(f"{PREFIX}/api/v1/workflows/flow_none", headers=BEARER)
    assert missing.json is not None
    assert (missing.status_code, missing.json["error"]["title"]) == (404, "404: no such workflow")


def test_who_may_not_command_sees_no_button(as_role: Callable[[str | None], Client], blocked: str) -> None:
    viewer = as_role("viewer")
    page = viewer.get(f"/workflows/{blocked}").text
    assert f"/workflows/{blocked}/cancel" not in page
    assert viewer.post(f"/workflows/{blocked}/cancel").status_code == 403


def test_a_viewer_of_other_queues_sees_nothing_of_it(as_role: Callable[[str | None], Client], blocked: str) -> None:
    scoped = as_role("emails")
    assert _rows(scoped.get("/workflows").text) == []
    assert scoped.get(f"/workflows/{blocked}").status_code == 404


def test_a_drawing_has_every_job_once_and_no_arrow_backwards(played: Jobs) -> None:
    blocked = scene.workflow(played)
    jobs = played.admin.workflow_graph(blocked).jobs
    drawing = workflow_graph.draw(jobs)
    assert drawing is not None
    assert sum(box.number for box in drawing.boxes) == len(jobs)
    places = {(box.x, box.y) for box in drawing.boxes}
    assert len(places) == len(drawing.boxes)
    assert all(0 <= box.x <= drawing.width - workflow_graph.WIDTH for box in drawing.boxes)
    assert all(0 <= box.y <= drawing.height - workflow_graph.HEIGHT for box in drawing.boxes)
    starts = [float(re.match(r"M([\d.]+)", arrow.path)[1]) for arrow in drawing.arrows]  # type: ignore[index]
    ends = [float(arrow.path.split()[-2]) for arrow in drawing.arrows]
    assert [box.needs for box in drawing.boxes if box.needs] == ["on failure", "if rows > 0"]
    assert all(end > start for start, end in zip(starts, ends, strict=True))
    assert workflow_graph.draw([]) is None


def test_what_a_result_is_compared_with_is_hidden_as_it_is_in_the_result(played: Jobs, admin: Client) -> None:
    played.define("login", lambda ctx, payload: None, redact=("session.colour",))
    played.define("go-on", lambda ctx, payload: None)
    with played.workflow("nightly") as flow:
        first = flow.add("login")
        for path in ("/api_key", "/list/0/password/inner", "/session/colour"):
            flow.add("go-on", after=first, when=Result(path, "==", "c4nary"))
        flow.add("go-on", after=first, when=Result("", "==", "password=c4nary"))
        flow.add("go-on", after=first, when=Result("/rows", ">", 2.5))
        flow.add("go-on", after=first, when=Result("/a~1b", "==", "x" * 100_000))
    shown = [link.when for job in played.admin.workflow_graph(flow.id).jobs for link in job.after]
    assert shown[0] == "api_key == [redacted]"
    assert "rows > 2.5" in shown
    assert not any("c4nary" in (words or "") or len(words or "") > 300 for words in shown)
    assert shown[-1] is not None
    assert shown[-1].startswith("a/b == xxx")
    page = admin.get(f"/workflows/{flow.id}").text
    assert "rows &gt; 2.5" in page
    assert "c4nary" not in page
    assert "x" * 1_000 not in page


def _job(number: int, name: str, after: Iterable[int], needs: str = "success") -> WorkflowJobView:
    links = tuple(WorkflowLink(job_id=f"job_{one}", name=None, needs=needs, state="open", number=one) for one in after)
    return WorkflowJobView(id=f"job_{number}", name=name, queue="q", status=Status.WAITING, after=links)


def _boxes(jobs: list[WorkflowJobView]) -> list[tuple[str, str]]:
    drawing = workflow_graph.draw(jobs)
    assert drawing is not None
    assert all(float(arrow.path[1:].split()[0]) < float(arrow.path.split()[-2]) for arrow in drawing.arrows)
    return [(box.name, box.text) for box in drawing.boxes]


def test_a_fan_of_many_jobs_is_three_boxes() -> None:
    parts = [_job(number, "part", [0]) for number in range(1, 200)]
    jobs = [_job(0, "start", []), *parts, _job(200, "end", range(1, 200))]
    assert _boxes(jobs) == [("start", "Waiting"), ("part (199)", "199 waiting"), ("end", "Waiting")]


def test_a_graph_that_is_higher_than_its_window_starts_at_the_top() -> None:
    drawing = workflow_graph.draw([_job(0, "start", []), *(_job(n, f"part {n}", [0]) for n in range(1, 30))])
    assert drawing is not None
    assert min(box.y for box in drawing.boxes) == drawing.boxes[0].y == workflow_graph.MARGIN


def test_a_row_of_jobs_of_one_name_is_one_box_and_what_has_a_condition_stands_alone() -> None:
    row = [_job(number, "page", [number - 1] if number else []) for number in range(100)]
    assert _boxes(row) == [("page (100)", "In a row: 100 waiting")]
    row[60] = _job(60, "page", [59], needs="failure")
    row.append(_job(100, "end", [99]))
    assert _boxes(row) == [("page (60)", "In a row: 60 waiting"), ("page (40)", "In a row: 40 waiting"),
                           ("end", "Waiting")]  # fmt: skip


def test_a_box_without_room_for_all_words_says_the_number() -> None:
    row = [_job(number, "page", [number - 1] if number else []) for number in range(1_000)]
    ended = [msgspec.structs.replace(job, status=Status.SUCCEEDED) for job in row]
    assert _boxes(ended) == [("page (1,000)", "1,000 succeeded")]


def test_many_rows_beside_each_other_are_one_box() -> None:
    first = [_job(number, "load", []) for number in range(30)]
    second = [_job(30 + number, "load", [number]) for number in range(30)]
    assert _boxes([*first, *second, _job(60, "end", range(30, 60))]) == [
        ("load (60)", "In a row: 60 waiting"), ("end", "Waiting")
    ]  # fmt: skip
