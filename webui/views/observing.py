"""Workers, locks and the audit trail: what there is to see, and nothing to do."""

from __future__ import annotations

from flask import Response, request

from webui import preferences
from webui.rendering import render
from webui.routes import Route
from webui.ui import Ui, visit


def _paging(ui: Ui) -> dict[str, object]:
    return {
        "cursor": request.args.get("cursor") or None,
        "page_size": preferences.read(request, ui.cookie).size,
    }


def workers(ui: Ui) -> Response:
    """Worker processes, those heard of last first; for who sees some queues only, those that take from them."""
    page = ui.admin.list_workers(**_paging(ui), queues=visit().scope)  # type: ignore[arg-type]
    return render(ui, "workers.html", title="Workers", nav="workers", live=True, page=page)


def locks(ui: Ui) -> Response:
    """Who holds what, until when."""
    page = ui.admin.list_locks(**_paging(ui))  # type: ignore[arg-type]
    return render(ui, "locks.html", title="Locks", nav="locks", live=True, page=page)


def audit(ui: Ui) -> Response:
    """Who did what, when and why."""
    given = {name: request.args.get(name, "").strip() for name in ("target", "actor")}
    page = ui.admin.audit(given["target"] or None, given["actor"] or None, **_paging(ui))  # type: ignore[arg-type]
    return render(ui, "audit.html", title="Audit", nav="audit", live=True, page=page, given=given)


ROUTES = (
    Route("/workers", "workers", workers, "worker.view"),
    Route("/locks", "locks", locks, "lock.view"),
    Route("/audit", "audit", audit, "audit.view"),
)
