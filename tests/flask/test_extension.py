"""``SloppyJobs``: bound late, by the application in force."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, current_app, has_app_context
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Column, Integer, String, create_engine, event, text
from sqlalchemy.orm import Session

import webui
from sloppyjobs import InvalidOption, Job, JobsError, Retry, SchemaMissing
from sloppyjobs.flask import SloppyJobs
from sloppyjobs.internals import internals
from sloppyjobs.testing import capture, drain

Make = Callable[..., Flask]


def test_defining_and_initialising_open_no_connection_and_start_no_thread(
    jobs: SloppyJobs, db: SQLAlchemy, make_app: Make, tmp_path: Path
) -> None:
    before = threading.active_count()
    jobs.define("say", lambda ctx, payload: None)
    jobs.declare("elsewhere")
    jobs.declare_recurring("nightly", "say", cron="0 2 * * *")
    app = make_app(init=False)
    opened: list[object] = []
    with app.app_context():
        event.listen(db.engine, "connect", lambda connection, record: opened.append(connection))
    app.register_blueprint(webui.create_blueprint(jobs), url_prefix="/jobs")
    jobs.create_worker()
    assert (opened, threading.active_count()) == ([], before)
    assert not (tmp_path / "app.db").exists()


@pytest.mark.parametrize("used", [None, "work"])
def test_a_forked_child_does_not_share_what_the_application_opened_before(
    db: SQLAlchemy, make_app: Make, used: str | None
) -> None:
    app = make_app(init=False)
    with app.app_context():
        pool = db.engines[used].pool
        with db.engines[used].connect() as connection:
            connection.execute(text("SELECT 1"))  # as db.create_all() in a factory, before gunicorn --preload forks
        assert pool.checkedin() == 1  # type: ignore[attr-defined]
        child = os.fork()
        if not child:
            os._exit(db.engines[used].pool.checkedin())  # type: ignore[attr-defined]
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_unbound_jobs_say_what_is_missing(jobs: SloppyJobs) -> None:
    definition = jobs.define("say", lambda ctx, payload: "said")
    assert definition(None, None) == "said"
    for use in (definition.enqueue, jobs.create_worker, jobs.tick_recurring, lambda: jobs.admin, lambda: jobs.storage):
        with pytest.raises(JobsError, match="not bound to an application yet"):
            use()


def test_jobs_live_in_the_database_of_the_application(jobs: SloppyJobs, db: SQLAlchemy, make_app: Make) -> None:
    jobs.define("say", lambda ctx, payload: payload["word"])
    app = make_app()
    with app.app_context():
        assert jobs.storage.engine is db.engine
        job = jobs.enqueue("say", {"word": "hello"})
    assert drain(jobs) == 1, "the one application is found outside of its context too"
    assert jobs.get(job.id).result == "hello"


def test_a_database_of_their_own_comes_from_configuration_or_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured, given = (f"sqlite:///{tmp_path / name}.db" for name in ("configured", "given"))
    monkeypatch.setenv("SLOPPYJOBS_DATABASE_URL", given)
    from_environment, from_configuration = SloppyJobs(Flask("one")), SloppyJobs()
    app = Flask("two")
    from_configuration.init_app(app)
    app.config["SLOPPYJOBS_DATABASE_URL"] = configured
    for jobs, name in ((from_environment, "given"), (from_configuration, "configured")):
        jobs.storage.init()
        jobs.declare("say")
        jobs.enqueue("say")
        jobs.storage.close()
        assert (tmp_path / f"{name}.db").exists()


def test_an_application_without_a_database_for_jobs_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLOPPYJOBS_DATABASE_URL", raising=False)
    jobs = SloppyJobs(Flask("shop"))
    with pytest.raises(JobsError, match=r"'shop' does not say where its jobs are kept.*SLOPPYJOBS_DATABASE_URL"):
        jobs.storage  # noqa: B018
    with pytest.raises(InvalidOption, match="needs its Flask-SQLAlchemy"):
        jobs.init_app(Flask("other"), bind_key="work")


def test_missing_tables_and_unknown_bind_keys_are_named(jobs: SloppyJobs, db: SQLAlchemy, make_app: Make) -> None:
    make_app(init=False)
    jobs.declare("say")
    with pytest.raises(SchemaMissing):
        jobs.enqueue("say")
    other = SloppyJobs()
    app = Flask("other")
    app.config["SQLALCHEMY_DATABASE_URI"] = "sqlite://"
    db.init_app(app)
    other.init_app(app, db, bind_key="nowhere")
    with pytest.raises(InvalidOption, match="'nowhere'"):
        other.storage  # noqa: B018


def test_an_application_is_initialised_once(jobs: SloppyJobs, make_app: Make) -> None:
    app = make_app()
    with pytest.raises(JobsError, match="already"):
        jobs.init_app(app)


@pytest.mark.parametrize("db", ["sqlite:///app.db", create_engine("sqlite://"), Flask("db")], ids=type)
def test_what_is_no_flask_sqlalchemy_is_refused_and_the_application_stays_as_it_was(jobs: SloppyJobs, db: Any) -> None:
    app = Flask("shop")
    with pytest.raises(InvalidOption, match="db must be a Flask-SQLAlchemy") as refused:
        jobs.init_app(app, db)
    assert refused.value.field == "db"
    assert not app.extensions
    with pytest.raises(InvalidOption, match="must be a Flask application"):
        jobs.init_app("shop")  # type: ignore[arg-type]


def test_several_applications_in_one_process_keep_to_their_own_databases(jobs: SloppyJobs, make_app: Make) -> None:
    seen: list[tuple[str, str]] = []
    jobs.define("say", lambda ctx, payload: seen.append((current_app.import_name, payload)))
    one, two = make_app("one"), make_app("two")
    for app in (one, two):
        with app.app_context():
            jobs.enqueue("say", f"for {app.import_name}")
    with pytest.raises(JobsError, match="belong to 2 applications"):
        jobs.enqueue("say", "for whom?")
    for app in (one, two):
        with app.app_context():
            assert drain(jobs) == 1
    assert seen == [("one", "for one"), ("two", "for two")]


def test_the_worker_of_an_application_stays_with_it_in_all_its_threads(
    jobs: SloppyJobs, make_app: Make, eventually: Callable[..., Any]
) -> None:
    seen: list[str] = []
    jobs.define("say", lambda ctx, payload: seen.append(current_app.import_name))
    jobs.declare_recurring("often", "say", every=1)
    one, two = make_app("one"), make_app("two")
    with two.app_context():
        worker = jobs.create_worker(poll_interval=0.1, maintenance=False)
    worker.start()
    try:
        eventually(lambda: len(seen) >= 2)
    finally:
        worker.stop()
    assert set(seen) == {"two"}
    assert len(jobs.bound(one).admin.list_recurring()) == 0


def test_an_application_that_was_not_initialised_is_not_served_by_another(jobs: SloppyJobs, make_app: Make) -> None:
    make_app()
    jobs.declare("say")
    with Flask("stranger").app_context(), pytest.raises(JobsError, match="'stranger' is not initialised"):
        jobs.enqueue("say")


def test_handlers_run_in_a_context_and_the_session_is_removed_after_each(
    jobs: SloppyJobs, db: SQLAlchemy, make_app: Make
) -> None:
    removed: list[int] = []
    sessions: list[Any] = []

    @jobs.define("in-thread")
    def in_thread(ctx: Any, payload: Any) -> str:
        sessions.append(db.session())
        assert db.session.connection().exec_driver_sql("SELECT 1").scalar() == 1
        return str(current_app.import_name)

    @jobs.define("in-coroutine")
    async def in_coroutine(ctx: Any, payload: Any) -> str:
        sessions.append(db.session())
        return str(current_app.import_name)

    @jobs.define("fail", retry=Retry(max_attempts=1))
    def fail(ctx: Any, payload: Any) -> None:
        sessions.append(db.session())
        db.session.connection().exec_driver_sql("SELECT 1")
        raise ValueError

    app = make_app()
    app.teardown_appcontext(lambda error: removed.append(1))
    made = [jobs.enqueue(name) for name in ("in-thread", "in-coroutine", "in-thread", "fail")]
    worker = jobs.create_worker(poll_interval=0.1, concurrency=1, recurring=False, maintenance=False)
    worker.start()
    try:
        results = [jobs.wait(job.id, 60).result for job in made]
    finally:
        worker.stop()
    assert results == ["app", "app", "app", None]
    assert len(removed) == 4
    assert len({id(session) for session in sessions}) == 4, "each job has a session of its own"
    assert not any(session.in_transaction() for session in sessions)
    with app.app_context():
        assert db.engine.pool.checkedout() == 0
    assert not has_app_context()


def test_hooks_run_in_a_context_too(jobs: SloppyJobs, make_app: Make) -> None:
    told: list[str] = []

    @jobs.on_dead
    def alert(job: Job) -> None:
        told.append(f"{job.name} of {current_app.import_name}")

    @jobs.middleware
    def surround(ctx: Any, payload: Any, call_next: Any) -> Any:
        told.append(f"around in {current_app.import_name}")
        return call_next()

    @jobs.define("fail", retry=Retry(max_attempts=1))
    def fail(ctx: Any, payload: Any) -> None:
        raise ValueError

    make_app()
    jobs.enqueue("fail")
    drain(jobs)
    assert told == ["around in app", "fail of app"]


@pytest.mark.parametrize("bind_key", [None, "work"])
def test_an_enqueue_in_the_session_commits_or_rolls_back_with_the_request(
    jobs: SloppyJobs, db: SQLAlchemy, make_app: Make, bind_key: str | None
) -> None:
    class Order(db.Model):  # type: ignore[name-defined, misc]
        __bind_key__ = bind_key
        id = Column(Integer, primary_key=True)
        article = Column(String(20))

    jobs.declare("ship")
    app = make_app(bind_key=bind_key)

    @app.post("/orders/<article>")
    def order(article: str) -> str:
        db.session.add(Order(article=article))
        jobs.enqueue("ship", {"article": article}, session=db.session)
        if article == "nothing":
            db.session.rollback()
        else:
            db.session.commit()
        return "ok"

    with app.app_context():
        db.create_all()
    client = app.test_client()
    for article in ("book", "nothing", "pen"):
        assert client.post(f"/orders/{article}").status_code == 200
    with app.app_context():
        assert [row.article for row in db.session.query(Order).order_by(Order.id)] == ["book", "pen"]
        assert jobs.storage.engine is db.engines[bind_key]
        assert len(jobs.admin.list_jobs()) == 2


def test_the_session_and_the_handlers_share_a_postgresql_too(
    jobs: SloppyJobs, db: SQLAlchemy, postgres_url: str, eventually: Callable[..., Any]
) -> None:
    @jobs.define("count")
    def count(ctx: Any, payload: Any) -> int:
        found = db.session.connection().exec_driver_sql("SELECT count(*) FROM sloppy_jobs").scalar_one()
        return int(found)

    app = Flask("shop")
    app.config["SQLALCHEMY_DATABASE_URI"] = postgres_url.replace("postgresql://", "postgresql+psycopg://")
    db.init_app(app)
    jobs.init_app(app, db)
    with app.app_context():
        jobs.enqueue("count", session=db.session)
        db.session.rollback()
        job = jobs.enqueue("count", session=db.session)
        db.session.commit()
    worker = jobs.create_worker(poll_interval=0.1, recurring=False, maintenance=False)
    worker.start()
    try:
        assert jobs.wait(job.id, 60).result == 1
    finally:
        worker.stop()
        with app.app_context():
            db.engine.dispose()


def test_a_session_of_the_applications_own_making_is_taken_as_it_is(
    jobs: SloppyJobs, db: SQLAlchemy, make_app: Make
) -> None:
    jobs.declare("ship")
    app = make_app(bind_key="work")
    with app.app_context(), Session(db.engines["work"]) as session:
        jobs.enqueue("ship", session=session)
        session.rollback()
        assert len(jobs.admin.list_jobs()) == 0
        jobs.enqueue("ship", session=session)
        session.commit()
        assert len(jobs.admin.list_jobs()) == 1


def test_what_is_set_on_the_jobs_after_initialising_counts_for_the_application(
    jobs: SloppyJobs, make_app: Make
) -> None:
    from sloppyjobs.retention import Retention

    app = make_app()
    jobs.bound(app).middleware(lambda ctx, payload, call_next: call_next())
    assert len(internals(jobs).hooks.middlewares) == 1
    jobs.retention = Retention(succeeded=1)
    jobs.define("late", lambda ctx, payload: None)
    jobs.declare_recurring("nightly", "late", cron="0 2 * * *")
    bound = jobs.bound(app)
    assert bound.retention.succeeded == 1
    assert bound.schedules.sync().declared == ("nightly",)
    with capture(jobs) as captured:
        bound.enqueue("late")
    captured.assert_enqueued("late", times=1)


def test_options_of_the_storage_are_passed_on(jobs: SloppyJobs, db: SQLAlchemy, make_app: Make) -> None:
    app = make_app(prefix="acme_")
    with app.app_context():
        from sqlalchemy import inspect

        assert "acme_jobs" in inspect(db.engine).get_table_names()


def test_the_admin_pages_take_the_extension(jobs: SloppyJobs, make_app: Make) -> None:
    jobs.define("say-hello", lambda ctx, payload: None)
    app = make_app()
    app.register_blueprint(webui.create_blueprint(jobs, policy=webui.AllowAll()), url_prefix="/admin/jobs")
    with app.app_context():
        job = jobs.enqueue("say-hello")
    page = app.test_client().get("/admin/jobs/jobs")
    assert page.status_code == 200
    assert job.id in page.text and "say-hello" in page.text


def test_the_command_line_finds_the_jobs_of_an_application(
    jobs: SloppyJobs, make_app: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from click.testing import CliRunner

    from sloppyjobs.cli import main

    module = tmp_path / "host_of_jobs.py"
    module.write_text(
        "from flask import Flask\nfrom sloppyjobs.flask import SloppyJobs\njobs = SloppyJobs()\n"
        "def create_app():\n    app = Flask(__name__)\n"
        f"    app.config['SLOPPYJOBS_DATABASE_URL'] = 'sqlite:///{tmp_path}/host.db'\n"
        "    jobs.init_app(app)\n    return app\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    unbound = CliRunner().invoke(main, ["--app", "host_of_jobs:jobs", "init"])
    assert unbound.exit_code == 1
    assert "not bound to an application yet" in unbound.output
    assert CliRunner().invoke(main, ["--app", "host_of_jobs:create_app", "init"]).exit_code == 0
    assert (tmp_path / "host.db").exists()
