"""An application that was there before its jobs: its own users, login, database, CSRF protection and static files.

Run it with ``flask --app examples/host_app/app.py run``, and a worker with ``flask --app examples/host_app/app.py jobs
worker``. Log in as ``ada`` (an operator) or ``grace`` (a viewer of the queue ``emails``); both have the password
``demo``. The admin pages are at ``/staff/jobs``.
"""

from __future__ import annotations

import os
from typing import Any

from flask import Flask, flash, redirect, render_template, request, session, url_for
from flask.typing import ResponseReturnValue
from flask_sqlalchemy import SQLAlchemy
from flask_wtf.csrf import CSRFProtect
from werkzeug.security import check_password_hash, generate_password_hash

import webui
from sloppyjobs.flask import SloppyJobs

db = SQLAlchemy()
csrf = CSRFProtect()
jobs = SloppyJobs()


class User(db.Model):  # type: ignore[name-defined,misc]
    """Somebody with a role: ``operator``, ``viewer`` or ``customer``."""

    id = db.Column(db.Integer, primary_key=True)
    name = db.Column(db.String(80), unique=True, nullable=False)
    password = db.Column(db.String(255), nullable=False)
    role = db.Column(db.String(20), nullable=False, default="customer")


class Order(db.Model):  # type: ignore[name-defined,misc]
    """Something that was bought."""

    id = db.Column(db.Integer, primary_key=True)
    email = db.Column(db.String(255), nullable=False)


@jobs.define("send-receipt", queue="emails")
def send_receipt(ctx: Any, payload: Any) -> Any:
    """Runs in a worker, in a context of the application."""
    ctx.log("info", "sending", order=payload["order"])
    return {"delivered_to": db.session.get_one(Order, payload["order"]).email}


class StaffPolicy:
    """The host's own users decide over the admin pages."""

    def actor(self) -> Any:
        """Whoever is logged in, by name; None sends to the login."""
        user = db.session.get(User, session["user"]) if "user" in session else None
        return None if user is None else user.name

    def _role(self, actor: str) -> str:
        user = db.session.scalar(db.select(User).filter_by(name=actor))
        return "customer" if user is None else str(user.role)

    def can(self, actor: Any, action: str, resource: webui.Resource) -> bool:  # noqa: ARG002
        """Operators do everything; viewers look, but not beyond their queue; customers have no business here."""
        role = self._role(actor)
        beyond = action in ("audit.view", "worker.view", "lock.view")
        return role == "operator" or (role == "viewer" and action.endswith(".view") and not beyond)

    def scope(self, actor: Any) -> Any:
        """Viewers see one queue."""
        return None if self._role(actor) == "operator" else ("emails",)

    def on_unauthenticated(self) -> ResponseReturnValue:
        """The host's own login."""
        return redirect(url_for("login"))


def create_app(database: str | None = None) -> Flask:
    """The application."""
    app = Flask(__name__)
    app.config["SECRET_KEY"] = os.environ.get("SECRET_KEY", "only for this example")
    app.config["SQLALCHEMY_DATABASE_URI"] = database or os.environ.get("DATABASE_URL", "sqlite:///host_app.db")
    db.init_app(app)
    csrf.init_app(app)
    jobs.init_app(app, db)
    with app.app_context():
        db.create_all()
        _people()
        jobs.init()
    _pages(app)
    app.register_blueprint(webui.create_blueprint(jobs, StaffPolicy()), url_prefix="/staff/jobs")
    return app


def _people() -> None:
    if db.session.scalar(db.select(User).limit(1)) is None:
        for name, role in (("ada", "operator"), ("grace", "viewer"), ("linus", "customer")):
            db.session.add(User(name=name, password=generate_password_hash("demo"), role=role))
        db.session.commit()


def _pages(app: Flask) -> None:
    @app.get("/")
    def home() -> str:
        return render_template("home.html", user=db.session.get(User, session.get("user", 0)))

    @app.post("/orders")
    def order() -> ResponseReturnValue:
        """The order and its job are written together, or not at all."""
        placed = Order(email=request.form["email"])
        db.session.add(placed)
        db.session.flush()
        jobs.enqueue("send-receipt", {"order": placed.id, "to": placed.email}, session=db.session)
        db.session.commit()
        flash("Thank you.")
        return redirect(url_for("home"))

    @app.route("/login", methods=["GET", "POST"])
    def login() -> ResponseReturnValue:
        if request.method == "POST":
            user = db.session.scalar(db.select(User).filter_by(name=request.form["name"]))
            if user is not None and check_password_hash(user.password, request.form["password"]):
                session["user"] = user.id
                return redirect(url_for("home"))
            flash("That is not right.")
        return render_template("login.html")

    @app.errorhandler(404)
    def not_here(_error: Exception) -> ResponseReturnValue:
        return render_template("404.html"), 404
