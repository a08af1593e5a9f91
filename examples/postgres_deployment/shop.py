"""The application of the deployment: orders, the jobs that belong to them, a schedule, and the admin UI.

``create_app`` is what gunicorn and ``flask jobs`` load. The database is DATABASE_URL.
"""

from __future__ import annotations

import os
from typing import Any

from flask import Flask
from flask.typing import ResponseReturnValue
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import make_url

import webui
from sloppyjobs import Retry
from sloppyjobs.flask import SloppyJobs

db, jobs = SQLAlchemy(), SloppyJobs(application="shop")


class Order(db.Model):  # type: ignore[name-defined,misc]
    """Something that was bought."""

    id = db.Column(db.Integer, primary_key=True)
    item = db.Column(db.String(50), nullable=False)
    packed = db.Column(db.Boolean, nullable=False, default=False)


@jobs.define("pack", queue="warehouse", retry=Retry(max_attempts=5, initial=0.1))
def pack(ctx: Any, payload: Any) -> str:
    """Takes a moment; a piano takes a minute, at its first attempt. A second run changes nothing that the first did."""
    ctx.signal.wait(60 if payload["item"] == "piano" and ctx.attempt == 1 else 0.1)
    order = db.session.get_one(Order, payload["order"])
    order.packed = True
    db.session.commit()
    return f"{payload['item']} packed"


@jobs.define("count-orders")
def count_orders(_ctx: Any, _payload: Any) -> int:
    """What the schedule runs, every second."""
    return int(db.session.scalar(db.select(db.func.count()).select_from(Order)) or 0)


jobs.declare_recurring("counting", "count-orders", every=1)


def create_app() -> Flask:
    """The application, with the admin UI behind a password and its API behind a token."""
    app = Flask(__name__)
    app.config["SECRET_KEY"] = os.environ["SECRET_KEY"]
    # Flask-SQLAlchemy takes the name of the driver.
    url = make_url(os.environ["DATABASE_URL"]).set(drivername="postgresql+psycopg")
    app.config["SQLALCHEMY_DATABASE_URI"] = url
    # Ten handlers that each hold a session, and five threads of the worker itself.
    app.config["SQLALCHEMY_ENGINE_OPTIONS"] = {"pool_size": 15}
    db.init_app(app)
    jobs.init_app(app, db)
    pages = webui.BasicAuthPolicy(os.environ["JOBS_USER"], os.environ["JOBS_PASSWORD"])
    tokens = webui.TokenPolicy(os.environ["JOBS_TOKEN"])
    app.register_blueprint(webui.create_blueprint(jobs, pages, api_policy=tokens), url_prefix="/admin/jobs")

    @app.post("/orders/<item>")
    def order(item: str) -> ResponseReturnValue:
        """The order and its job are committed together."""
        placed = Order(item=item)
        db.session.add(placed)
        db.session.flush()
        job = jobs.enqueue("pack", {"order": placed.id, "item": item}, session=db.session)
        db.session.commit()
        return {"order": placed.id, "job": job.id}

    @app.cli.command("create-tables")
    def create_tables() -> None:
        """The application's own tables; a real one has migrations."""
        db.create_all()

    return app
