"""A blog with a long export: the application's factory and its extensions."""

from __future__ import annotations

import os
from pathlib import Path

import click
from flask import Flask
from flask.cli import with_appcontext
from flask_login import LoginManager
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy
from flask_wtf.csrf import CSRFProtect

import webui
from sloppyjobs.flask import SloppyJobs

db = SQLAlchemy()
migrate = Migrate()
login = LoginManager()
csrf = CSRFProtect()
jobs = SloppyJobs()


def create_app() -> Flask:
    """The application. Nothing is connected to, and nothing starts."""
    app = Flask(__name__)
    app.config["SECRET_KEY"] = os.environ.get("SECRET_KEY", "only for this example")
    app.config["SQLALCHEMY_DATABASE_URI"] = os.environ.get("DATABASE_URL", "sqlite:///blog.db")
    app.config["EXPORTS"] = Path(os.environ.get("BLOG_EXPORTS", app.instance_path)) / "exports"

    db.init_app(app)
    migrate.init_app(app, db)
    csrf.init_app(app)
    login.init_app(app)
    login.login_view = "pages.sign_in"  # type: ignore[assignment]
    jobs.init_app(app, db)

    from blog import tasks, views
    from blog.policy import AdminPolicy

    assert tasks.export_posts.name == "export-posts"  # importing the module defines the job
    app.register_blueprint(views.pages)
    app.register_blueprint(webui.create_blueprint(jobs, AdminPolicy()), url_prefix="/admin/jobs")
    app.cli.add_command(seed)
    return app


@click.command()
@with_appcontext
@click.option("--posts", default=200, show_default=True, help="How many posts ada has written.")
def seed(posts: int) -> None:
    """Make ada, an administrator with posts, and bob; the password is ``demo``."""
    from blog.models import Post, User

    ada, bob = User(name="ada", is_admin=True), User(name="bob")
    for user in (ada, bob):
        user.set_password("demo")
        db.session.add(user)
    ada.posts = [Post(body=f"The {number}. thing that I have to say") for number in range(1, posts + 1)]
    db.session.commit()
    click.echo(f"ada has {posts} posts")
