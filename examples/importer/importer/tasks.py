"""What runs in the worker: the import of a file, of each of its rows, and the report at the end."""

from __future__ import annotations

import csv
import io
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from flask import current_app

from importer import db, jobs
from importer.models import Import, Price
from sloppyjobs import Retry

COLUMNS = ["tenant", "article", "cents"]
WEEK = 7 * 24 * 3600

# The tenants' systems take two calls at a time. Each tenant has its own two: a long list holds up nobody else.
jobs.declare_limit("tenant-api", concurrency=2)


@jobs.define("import-file", queue="imports", retry=Retry(max_attempts=3, give_up_on=(ValueError,)))
def import_file(ctx: Any, payload: Any) -> dict[str, Any]:
    """Check the file, wait until somebody approves it, and enqueue its rows.

    While it waits, no worker is held. It may wait for days, and over restarts and deployments.
    """
    ctx.step("check", check, payload["import"])
    approval = ctx.wait_for("approved", timeout=WEEK) or {}  # operators may send a signal without a value
    return {"batch": enqueue_rows(payload["import"], approval.get("by", "an operator"))}


def check(import_id: int) -> dict[str, int]:
    """Count the rows of each tenant. A file of another form is dead at once: a retry would not help."""
    found = db.session.get_one(Import, import_id)
    found.rows_by_tenant = Counter(row["tenant"] for row in rows(found))
    db.session.commit()
    return found.rows_by_tenant


def enqueue_rows(import_id: int, approved_by: str) -> str:
    """One job for each row, in one transaction with our own row, which says that it is done.

    A worker may be killed after the commit, and the next attempt comes here again: it finds the batch.
    """
    found = db.session.get_one(Import, import_id, with_for_update=True)
    if found.batch_id is None:
        with jobs.batch(
            f"import {found.filename}",
            on_complete=("report-import", {"import": import_id}),
            metadata={"approved_by": approved_by},
            session=db.session,
        ) as batch:
            batch.enqueue_many([("import-row", row) for row in rows(found)])
        found.batch_id, found.approved_by = batch.id, approved_by
        db.session.commit()
    return found.batch_id


@jobs.define(
    "import-row",
    queue="imports",
    resource="tenant-api",
    partition="tenant",
    retry=Retry(max_attempts=5, give_up_on=(ValueError,)),
)
def import_row(ctx: Any, payload: Any) -> None:  # noqa: ARG001
    """Write one price. Safe to run twice: the same price is written again."""
    cents = int(payload["cents"])
    if cents < 0:
        raise ValueError(f"line {payload['line']}: a price is not negative")
    time.sleep(current_app.config["SECONDS_PER_ROW"])  # stands for the call of the tenant's system
    db.session.merge(Price(tenant=payload["tenant"], article=payload["article"], cents=cents))
    db.session.commit()


@jobs.define("report-import", queue="imports")
def report_import(ctx: Any, payload: Any) -> dict[str, Any]:  # noqa: ARG001
    """Enqueued once, when all rows have ended, whatever died meanwhile."""
    found = db.session.get_one(Import, payload["import"])
    batch = jobs.admin.get_batch(found.batch_id)
    dead = jobs.admin.list_jobs(batch=found.batch_id, status="dead", page_size=100)
    found.report = {"imported": batch.succeeded, "of": batch.total, "errors": [job.error_message for job in dead]}
    db.session.commit()
    return found.report


def rows(found: Import) -> Iterator[dict[str, Any]]:
    """The rows of a file, each with the number of its line."""
    reader = csv.DictReader(io.StringIO(found.content))
    if reader.fieldnames != COLUMNS:
        raise ValueError(f"the first line must be {','.join(COLUMNS)}")
    for row in reader:
        yield {"line": reader.line_num, **row}
