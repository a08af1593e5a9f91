"""Who sees some queues only gets the same pages, with nothing of any other queue on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from hosts import PREFIX, RolePolicy, make_app

import webui
from sloppyjobs import Jobs, Retry
from webui.routes import PUBLIC

FOREIGN = "theirs"
"""Part of every name in the queue that must not be seen."""
BEARER = {"Authorization": "Bearer t0k3n"}


class TheirsError(Exception):
    """A cause of death that must not be seen."""


class OursError(Exception):
    """A cause of death that is shown."""


class OneQueue(RolePolicy):
    """May everything, in one queue."""

    def actor(self) -> Any:
        return "viewer of one queue"

    def can(self, actor: Any, action: str, resource: webui.Resource) -> bool:
        return True

    def scope(self, actor: Any) -> Any:
        return ["ours"]


def _play(jobs: Jobs, side: str, error: type[Exception]) -> None:
    """One job of each kind, a schedule, a worker, a lock and an audit entry of one side."""
    once = Retry(max_attempts=1)

    @jobs.define(f"{side}-fails", queue=side, retry=once)
    def fails(ctx: Any, payload: Any) -> None:
        raise error(f"{side} is broken")

    @jobs.define(f"{side}-works", queue=side)
    def works(ctx: Any, payload: Any) -> str:
        return f"{side} is done"

    for name in (f"{side}-fails", f"{side}-works"):
        jobs.enqueue(name, {"of": side}, correlation_id=f"{side}-c", idempotency_key=f"{side}-{name}")
    worker = jobs.create_worker(queues=(side,), id=f"{side}-worker", recurring=False)
    worker.run_once()
    jobs.enqueue(f"{side}-works", {"of": side})
    jobs.enqueue(f"{side}-works", {"of": side}, delay=3600)
    jobs.enqueue(f"{side}-works", {"of": side}, queue=f"{side}-held" if side == FOREIGN else side)
    jobs.claim(f"{side}-claimer", queues=(side,), limit=1, lease=600)
    jobs.recurring(f"{side}-schedule", f"{side}-works", {"of": side}, every=300)
    jobs.recurring(f"{side}-schedule-of-its-own", f"{side}-works", {}, cron="0 2 * * *", queue=side)
    jobs.admin.pause_queue(side, actor=f"{side}-actor", reason=f"{side}-reason")
    jobs.locks(f"{side}-owner").acquire(f"{side}-lock", ttl=600)


@pytest.fixture
def sides(ready_sqlite_url: str) -> Iterator[Jobs]:
    jobs = Jobs(ready_sqlite_url)
    _play(jobs, "ours", OursError)
    _play(jobs, FOREIGN, TheirsError)
    yield jobs
    jobs.storage.close()


@pytest.fixture
def scoped(sides: Jobs) -> Flask:
    app = Flask("host")
    app.config.update(SECRET_KEY="tests", TESTING=True)
    tokens = webui.TokenPolicy("t0k3n", scope=["ours"])
    app.register_blueprint(webui.create_blueprint(sides, OneQueue(), api_policy=tokens), url_prefix=PREFIX)
    return app


def _cause(jobs: Jobs, side: str) -> str:
    return next(group.cause for group in jobs.admin.dead_groups() if group.name == f"{side}-fails")


def _addresses(app: Flask, side: str, job: str, cause: str) -> Iterator[str]:
    """Every address that is read, about one side."""
    for rule in app.url_map.iter_rules():
        if not rule.endpoint.startswith("sloppyjobs.") or "GET" not in (rule.methods or ()):
            continue
        if app.view_functions[rule.endpoint].sloppyjobs_action == PUBLIC:  # type: ignore[attr-defined]
            continue
        about = f"{side}-schedule" if "schedule" in rule.endpoint or "recurring" in rule.rule else side
        of_worker = "worker" in rule.endpoint
        command = "trigger" if "schedule" in rule.endpoint else "quiet" if of_worker else "retry"
        values = {
            "id": f"{side}-worker" if of_worker else job,
            "name": about,
            "command": command,
            "anything": "nope",
            "cause": cause,
        }
        with app.test_request_context():
            given = {name: values[name] for name in rule.arguments}
            yield app.url_map.bind("localhost").build(rule.endpoint, given)


def _read(app: Flask, address: str) -> Any:
    return app.test_client().get(address, headers=BEARER if "/api/" in address or "/metrics" in address else {})


def test_no_page_and_no_answer_shows_anything_of_a_foreign_queue(scoped: Flask, sides: Jobs) -> None:
    own = sides.admin.list_jobs("dead", queue="ours")[0].id
    addresses = [*_addresses(scoped, "ours", own, _cause(sides, "ours")), f"{PREFIX}/jobs?status=dead",
                 f"{PREFIX}/jobs?correlation_id=ours-c", f"{PREFIX}/find?q=ours-works", f"{PREFIX}/?range=24h",
                 f"{PREFIX}/dead/retry?cause=1&error_type=OursError"]  # fmt: skip
    assert len(addresses) > 30
    shown = 0
    for address in [*addresses, *addresses]:  # the second time, what was kept from the first is there too
        response = _read(scoped, address)
        assert response.status_code in (200, 302, 400, 403, 404), address
        assert FOREIGN not in response.text.lower(), address
        shown += response.status_code == 200
    assert shown > 50


@pytest.mark.parametrize("status", ["queued", "processing", "dead", "succeeded", "scheduled"])
def test_foreign_jobs_queues_and_schedules_are_not_found(scoped: Flask, sides: Jobs, status: str) -> None:
    foreign = sides.admin.list_jobs(status, name=f"{FOREIGN}-fails" if status == "dead" else f"{FOREIGN}-works")[0].id
    cause = _cause(sides, FOREIGN)
    for address in _addresses(scoped, FOREIGN, foreign, cause):
        if foreign in address or FOREIGN in address or cause in address:
            response = _read(scoped, address)
            refused = "/limits/" in address or address.endswith("-worker/quiet")
            assert response.status_code == (403 if refused else 404), address
            assert f"{FOREIGN}-" not in response.text.replace(address, ""), address


def test_what_belongs_to_no_queue_is_refused(scoped: Flask) -> None:
    pages = ("/locks", "/limits", "/audit", "/alerts")
    for address in (*pages, "/api/v1/locks", "/api/v1/limits", "/api/v1/audit", "/api/v1/alerts"):
        assert _read(scoped, PREFIX + address).status_code == 403, address
    assert f'href="{PREFIX}/audit"' not in _read(scoped, f"{PREFIX}/jobs").text


def test_the_numbers_are_those_of_the_visible_queues(scoped: Flask, sides: Jobs, tmp_path: Path) -> None:
    alone = Jobs(f"sqlite:///{tmp_path / 'alone.db'}")
    alone.storage.init()
    _play(alone, "ours", OursError)
    scope, whole = sides.admin.overview(queues=["ours"]), alone.admin.overview()
    assert [(one.status, one.count, one.fresh) for one in scope.statuses] == [
        (one.status, one.count, one.fresh) for one in whole.statuses
    ]
    assert [fire.schedule for fire in scope.next_fires] == [fire.schedule for fire in whole.next_fires]
    assert (scope.paused_queues, scope.idle_queues) == (whole.paused_queues, whole.idle_queues)
    groups = sides.admin.dead_groups(queues=["ours"])
    assert [(one.error_type, one.count) for one in groups] == [
        (one.error_type, one.count) for one in alone.admin.dead_groups()
    ]
    assert sides.admin.stats(queues=["ours"]).total.dead == alone.admin.stats().total.dead == 1
    assert sides.admin.stats(queue=FOREIGN, queues=["ours"]).total.dead == 0
    alone.storage.close()


def test_a_scope_without_queues_sees_nothing(sides: Jobs) -> None:
    found = sides.admin.overview(queues=[])
    assert not any(one.count for one in found.statuses)
    assert not (found.next_fires or found.dead_groups or found.paused_queues or found.live_workers)
    assert sides.admin.dead_groups(queues=()) == ()
    assert not sides.admin.list_recurring(queues=())
    assert not sides.admin.list_workers(queues=())


def test_a_count_that_could_not_look_at_everything_says_so(sides: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("counts", "dead_groups"):
        monkeypatch.setattr(f"sloppyjobs.storage.reads.{module}.WINDOW", 2)
    monkeypatch.setattr("sloppyjobs.storage.reads.counts.CAP", 2)
    for _ in range(3):
        sides.enqueue(f"{FOREIGN}-fails", {})
    sides.admin.resume_queue(FOREIGN)
    sides.create_worker(queues=(FOREIGN,), recurring=False).run_once()
    assert sides.admin.overview(queues=["ours"]).count("dead").capped
    assert not sides.admin.overview(queues=["ours"]).count("cancelled").capped


def test_scoped_pages_are_the_pages_of_everybody(scoped: Flask, sides: Jobs) -> None:
    everybody = make_app(sides).test_client()
    for path, mark in (("/", "Throughput and failures"), ("/dead", "Retry canary"), ("/", 'class="panel tiles')):
        assert mark in _read(scoped, PREFIX + path).text
        assert mark in everybody.get(PREFIX + path, headers={"X-Role": "admin"}).text
