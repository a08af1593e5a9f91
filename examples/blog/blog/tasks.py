"""What runs in the worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flask import current_app

from blog import db, jobs
from blog.models import Export, Post
from sloppyjobs import Retry

CHUNK = 20


@jobs.define("export-posts", queue="exports", timeout=600, retry=Retry(max_attempts=3, give_up_on=(LookupError,)))
def export_posts(ctx: Any, payload: Any) -> dict[str, Any]:
    """Write all posts of a user to a file. Safe to run twice: the file and the row appear at the end, as a whole."""
    export = db.session.get(Export, payload["export"])
    write = WRITERS[export.form]
    posts = db.session.scalars(db.select(Post).filter_by(user_id=export.user_id).order_by(Post.id)).all()
    unfinished = file_of(export).with_suffix(".part")
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    with unfinished.open("w") as file:
        for done, post in enumerate(posts, 1):
            file.write(write(post))
            if done % CHUNK == 0 or done == len(posts):
                # Cancelled, out of time, or the worker shuts down: stop here.
                ctx.signal.raise_if_aborted()
                ctx.progress(100 * done / len(posts), f"{done} of {len(posts)} posts", rows=done, total=len(posts))
    unfinished.replace(file_of(export))
    export.status, export.rows = "ready", len(posts)
    db.session.commit()
    return {"rows": len(posts)}


@jobs.on_dead
def close_the_row(job: Any) -> None:
    """The export will not come: say so in the blog's own table, which its page reads."""
    for export in db.session.scalars(db.select(Export).filter_by(job_id=job.id)):
        export.status = "failed"
    db.session.commit()


def file_of(export: Export) -> Path:
    """Where the export is kept."""
    return Path(current_app.config["EXPORTS"]) / f"{export.id}.{export.form}"


def _line(post: Post) -> str:
    return json.dumps({"id": post.id, "body": post.body}) + "\n"


def _paragraph(post: Post) -> str:
    return f"{post.body}\n\n"


WRITERS = {"jsonl": _line, "txt": _paragraph}
