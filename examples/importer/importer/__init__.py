"""Imports price lists: a file, an approval, one job for each row, a report. The application's factory."""

from __future__ import annotations

import os

from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from flask_wtf.csrf import CSRFProtect

import webui
from sloppyjobs.flask import SloppyJobs

db = SQLAlchemy()
csrf = CSRFProtect()
jobs = SloppyJobs()


def create_app() -> Flask:
    """The application. Nothing is connected to, and nothing starts."""
    app = Flask(__name__)
    app.config["SECRET_KEY"] = os.environ.get("SECRET_KEY", "only for this example")
    app.config["SQLALCHEMY_DATABASE_URI"] = os.environ.get("DATABASE_URL", "sqlite:///importer.db")
    app.config["MAX_CONTENT_LENGTH"] = 5_000_000
    app.config["SECONDS_PER_ROW"] = float(os.environ.get("SECONDS_PER_ROW", "0.3"))

    db.init_app(app)
    csrf.init_app(app)
    jobs.init_app(app, db)

    from importer import commands, tasks, views

    assert tasks.import_file.name == "import-file"  # importing the module defines the jobs
    # One user for the application and for the admin pages. Yours has its own login: see examples/blog.
    staff = webui.BasicAuthPolicy("ada", os.environ.get("IMPORTER_PASSWORD", "demo"))
    app.register_blueprint(views.pages(staff))
    app.register_blueprint(webui.create_blueprint(jobs, staff), url_prefix="/admin/jobs")
    app.cli.add_command(commands.init)
    app.cli.add_command(commands.sample)
    return app
