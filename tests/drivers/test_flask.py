"""An application on psycopg2: it enqueues in its session, its worker runs the job, and its admin pages show it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask
from flask_sqlalchemy import SQLAlchemy

import webui
from sloppyjobs.flask import SloppyJobs
from webui.policy import AllowAll

db, jobs = SQLAlchemy(), SloppyJobs()


class Order(db.Model):  # type: ignore[name-defined,misc]
    """A row of the application's own."""

    id = db.Column(db.Integer, primary_key=True)
    packed = db.Column(db.Boolean, nullable=False, default=False)


@jobs.define("pack")
def pack(ctx: object, payload: dict[str, int]) -> str:
    order = db.session.get(Order, payload["order"])
    order.packed = True
    db.session.commit()
    return "packed"


@pytest.fixture
def app(driver_url: str) -> Iterator[Flask]:
    """The application, with its tables and ours."""
    made = Flask("shop")
    made.config.update(SQLALCHEMY_DATABASE_URI=driver_url, SECRET_KEY="for a test")
    db.init_app(made)
    jobs.init_app(made, db)
    made.register_blueprint(webui.create_blueprint(jobs, policy=AllowAll()), url_prefix="/admin/jobs")

    @made.post("/orders")
    def order() -> str:
        new = Order()
        db.session.add(new)
        db.session.flush()
        job = jobs.enqueue("pack", {"order": new.id}, session=db.session)
        db.session.commit()
        return job.id

    with made.app_context():
        db.create_all()
    yield made
    with made.app_context():
        db.session.remove()
        db.engine.dispose()


def test_an_application_works_from_end_to_end(app: Flask) -> None:
    client = app.test_client()
    job_id = client.post("/orders").text
    with app.app_context():
        worker = jobs.create_worker(concurrency=1, poll_interval=0.05)
        worker.start()
        try:
            assert jobs.wait(job_id, 60).result == "packed"
        finally:
            worker.stop()
        assert [order.packed for order in db.session.scalars(db.select(Order))] == [True]
    for page in ("", "jobs", f"jobs/{job_id}", "queues", "workers", "recurring"):
        answer = client.get(f"/admin/jobs/{page}", follow_redirects=True)
        assert answer.status_code == 200, (page, answer.text[:500])
    assert job_id in client.get("/admin/jobs/jobs").text
