"""The pages: sign in, ask for an export, watch it, fetch it."""

from __future__ import annotations

from flask import Blueprint, abort, flash, redirect, render_template, request, send_file, url_for
from flask.typing import ResponseReturnValue
from flask_login import current_user, login_required, login_user, logout_user

from blog import db, jobs
from blog.models import Export, User
from blog.tasks import file_of

pages = Blueprint("pages", __name__)


@pages.get("/")
@login_required
def home() -> str:
    """The exports of whoever is signed in."""
    mine = db.select(Export).filter_by(user_id=current_user.id).order_by(Export.id.desc()).limit(20)
    return render_template("home.html", exports=db.session.scalars(mine).all())


@pages.post("/exports")
@login_required
def ask() -> ResponseReturnValue:
    """The row and its job are committed together."""
    export = Export(user_id=current_user.id, form=request.form["form"])
    db.session.add(export)
    db.session.flush()
    export.job_id = jobs.enqueue(
        "export-posts", {"export": export.id}, principal=current_user.name, session=db.session
    ).id
    db.session.commit()
    return redirect(url_for("pages.show", id=export.id))


@pages.get("/exports/<int:id>")
@login_required
def show(id: int) -> str:
    """How far it is."""
    export = _own(id)
    return render_template("export.html", export=export, job=jobs.get(export.job_id))


@pages.get("/exports/<int:id>/file")
@login_required
def fetch(id: int) -> ResponseReturnValue:
    """The file."""
    export = _own(id)
    if export.status != "ready":
        abort(404)
    return send_file(file_of(export).resolve(), as_attachment=True)


@pages.route("/sign-in", methods=["GET", "POST"])
def sign_in() -> ResponseReturnValue:
    """With name and password."""
    if request.method == "POST":
        user = db.session.scalar(db.select(User).filter_by(name=request.form["name"]))
        if user is not None and user.has_password(request.form["password"]):
            login_user(user)
            return redirect(url_for("pages.home"))
        flash("Wrong name or password")
    return render_template("sign_in.html")


@pages.post("/sign-out")
def sign_out() -> ResponseReturnValue:
    """Good-bye."""
    logout_user()
    return redirect(url_for("pages.sign_in"))


def _own(id: int) -> Export:
    export = db.session.get(Export, id)
    if export is None or export.user_id != current_user.id:
        abort(404)
    return export
