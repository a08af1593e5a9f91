"""The pages: upload a file, approve or refuse it, watch its rows."""

from __future__ import annotations

from flask import Blueprint, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

import webui
from importer import db, jobs
from importer.models import Import


def pages(staff: webui.Policy) -> Blueprint:
    """The pages, for whom the policy knows."""
    made = Blueprint("pages", __name__)

    @made.before_request
    def sign_in() -> ResponseReturnValue | None:
        return staff.on_unauthenticated() if staff.actor() is None else None

    @made.get("/")
    def home() -> str:
        """The latest files."""
        return render_template("home.html", imports=db.session.scalars(db.select(Import).order_by(Import.id.desc())))

    @made.post("/imports")
    def upload() -> ResponseReturnValue:
        """The file and its job are committed together."""
        file = request.files["file"]
        try:
            content = file.read().decode("utf-8-sig")
        except UnicodeDecodeError:
            flash("This is no text file in UTF-8.")
            return redirect(url_for("pages.home"))
        made = Import(filename=file.filename or "a file", content=content)
        db.session.add(made)
        db.session.flush()
        wanted = {"import": made.id}
        key = f"import:{made.id}"
        made.job_id = jobs.enqueue("import-file", wanted, business_key=key, session=db.session).id
        db.session.commit()
        return redirect(url_for("pages.show", id=made.id))

    @made.get("/imports/<int:id>")
    def show(id: int) -> str:
        """How far it is."""
        found = db.get_or_404(Import, id)
        job = jobs.get(found.job_id)
        batch = jobs.admin.get_batch(found.batch_id) if found.batch_id else None
        return render_template("import.html", found=found, job=job, batch=batch)

    @made.post("/imports/<int:id>/approve")
    def approve(id: int) -> ResponseReturnValue:
        """The job goes on when this commits. Of two who approve at once, the first one counts."""
        found = db.get_or_404(Import, id)
        if not jobs.signal(found.job_id, "approved", {"by": staff.actor()}, session=db.session):
            flash("Somebody has approved it already.")
        db.session.commit()
        return redirect(url_for("pages.show", id=id))

    @made.post("/imports/<int:id>/refuse")
    def refuse(id: int) -> ResponseReturnValue:
        """A job that waits can be cancelled."""
        jobs.admin.cancel(db.get_or_404(Import, id).job_id, actor=staff.actor(), reason="refused")
        return redirect(url_for("pages.show", id=id))

    return made
