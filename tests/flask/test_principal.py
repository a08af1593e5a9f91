"""On whose behalf a job is enqueued: the user who is signed in, or whom the application names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask, current_app, has_request_context
from flask_login import AnonymousUserMixin, LoginManager, UserMixin, login_user, logout_user

from sloppyjobs import Context, InvalidOption, Jobs
from sloppyjobs.flask import SloppyJobs
from sloppyjobs.testing import inline


class User(UserMixin):
    """Somebody with a name."""

    def __init__(self, id: str) -> None:
        self.id = id


@pytest.fixture
def make_jobs(tmp_path: Path) -> Callable[..., tuple[SloppyJobs, Flask]]:
    """Makes an application with its jobs."""

    def make(*, login: bool = True, principal: Callable[[], str | None] | None = None) -> tuple[SloppyJobs, Flask]:
        app = Flask("shop")
        app.config.update(SECRET_KEY="x", SLOPPYJOBS_DATABASE_URL=f"sqlite:///{tmp_path}/app.db")
        if login:
            LoginManager(app).user_loader(User)
        jobs = SloppyJobs(app, principal=principal)
        jobs.declare("say")
        with app.app_context():
            jobs.init()
        return jobs, app

    return make


def test_a_request_enqueues_on_behalf_of_the_user_who_is_signed_in(
    make_jobs: Callable[..., tuple[SloppyJobs, Flask]],
) -> None:
    jobs, app = make_jobs()
    with app.test_request_context():
        nobody = jobs.enqueue("say")
        login_user(User("ada"))
        ada = jobs.enqueue("say")
        many = jobs.enqueue_many([("say", 1), ("say", 2, {"priority": 1}), ("say", 3, {"principal": "grace"})])
        named = jobs.enqueue("say", principal="grace")
        logout_user()
        left = jobs.enqueue("say")
    with app.app_context():
        outside = jobs.enqueue("say")
    assert [job.principal for job in (nobody, ada, named, left, outside)] == [None, "ada", "grace", None, None]
    assert [job.principal for job in many] == ["ada", "ada", "grace"]
    with app.app_context():
        assert jobs.get(ada.id).principal == "ada"


def test_a_handler_that_runs_inline_in_a_request_has_no_request_and_acts_for_nobody(
    make_jobs: Callable[..., tuple[SloppyJobs, Flask]],
) -> None:
    jobs, app = make_jobs()

    @jobs.define("spawn")
    def spawn(ctx: Context, payload: None) -> list[object]:
        return [has_request_context(), current_app.name, ctx.enqueue("say").principal]

    with app.test_request_context(), inline(jobs):
        login_user(User("ada"))
        job = jobs.enqueue("spawn")
        assert job.principal == "ada"
        assert jobs.get(job.id).result == [False, "shop", None]
        assert has_request_context()


def test_without_flask_login_it_is_nobody(make_jobs: Callable[..., tuple[SloppyJobs, Flask]]) -> None:
    jobs, app = make_jobs(login=False)
    with app.test_request_context():
        assert jobs.enqueue("say").principal is None


def test_the_application_names_them_itself(make_jobs: Callable[..., tuple[SloppyJobs, Flask]]) -> None:
    jobs, app = make_jobs(principal=lambda: "tenant:7")
    with app.test_request_context():
        login_user(User("ada"))
        assert jobs.enqueue("say").principal == "tenant:7"


def test_a_user_without_an_id_is_nobody(make_jobs: Callable[..., tuple[SloppyJobs, Flask]]) -> None:
    class Ghost(AnonymousUserMixin):
        is_authenticated = True

    jobs, app = make_jobs()
    app.login_manager.anonymous_user = Ghost  # type: ignore[attr-defined]
    with app.test_request_context():
        assert jobs.enqueue("say").principal is None


def test_jobs_without_flask_ask_a_function(tmp_path: Path) -> None:
    who: list[object] = ["ada"]
    jobs = Jobs(f"sqlite:///{tmp_path}/app.db", principal=lambda: who[0])  # type: ignore[arg-type,return-value]
    jobs.init()
    jobs.declare("say")
    assert jobs.enqueue("say").principal == "ada"
    assert jobs.replace(jobs.enqueue("say", delay=60, principal="grace")).principal == "grace"
    who[0] = 7
    with pytest.raises(InvalidOption, match="principal=7"):
        jobs.enqueue("say")
    with pytest.raises(InvalidOption, match="principal=7"):
        jobs.enqueue_many([("say", 1)])
    jobs.storage.close()
