"""The list of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from flask import Response, request, url_for

from sloppyjobs import errors
from sloppyjobs.admin.known_names import like
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.views import JobRow, Page
from webui import filters, page_context
from webui.failures import LOST_PLACE
from webui.filters import JobFilters
from webui.labels import COMMAND_ICONS, COMMAND_LABELS
from webui.rendering import Flash, render
from webui.routes import Route
from webui.ui import Ui, visit
from webui.views.bulk import MOST

TABS = (
    Status.SCHEDULED,
    Status.WAITING,
    Status.QUEUED,
    Status.PROCESSING,
    Status.RETRYING,
    Status.PAUSED,
    Status.SUCCEEDED,
    Status.CANCELLED,
    Status.DEAD,
    Status.DELETED,
)
"""In the order of a life. A job is failed for an instant only, so there is no tab for it."""


class Suggestion(NamedTuple):
    """A filter whose value no job has, and values that are like it."""

    field: str
    given: str
    names: Sequence[str]


def show(ui: Ui, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """One page of the list; a query that cannot be answered leaves the filters usable."""
    chosen = page_context.preferences_of(ui).sized(request.args.get("size"))
    wanted = filters.parse(request.args, chosen.tz)
    page, trouble, status = _page(ui, wanted, chosen.size, status)
    response = render(
        ui,
        "jobs.html",
        title=title(wanted),
        nav="jobs",
        status=status,
        live=not request.args.get("cursor"),
        flashes=flashes,
        page=page,
        trouble=trouble,
        filters=wanted,
        size=chosen.size,
        tabs=_tabs(ui, wanted),
        known=known(ui),
        labels=filters.LABELS,
        ranges=filters.RANGES,
        bulk=_bulk_commands(page),
        icons=COMMAND_ICONS,
        commands=COMMAND_LABELS,
        most=MOST,
        suggestions=[] if page or trouble else _suggestions(ui, wanted),
        nothing=_nothing(wanted),
        archive=_archive(ui, wanted),
    )
    if request.args.get("size"):
        path = url_for(".overview")
        page_context.write_preferences(response, chosen, cookie=ui.cookie, path=path, secure=request.is_secure)
    return response


def title(wanted: JobFilters) -> str:
    """What the list shows, for the title of the page: ``Dead send-email jobs in emails``."""
    given = wanted.values
    words = [wanted.status, given.get("name", ""), "jobs", f"in {given['queue']}" if "queue" in given else ""]
    text = " ".join(filter(None, words))
    # A name is written as it is, whatever its case.
    if not (given.get("name") and not wanted.status):
        text = text[:1].upper() + text[1:]
    return f"{text}, filtered" if set(wanted.narrowed) - {"name", "queue"} else text


def _nothing(wanted: JobFilters) -> str:
    """What an empty list says."""
    jobs = f"{wanted.status} jobs" if wanted.status else "jobs"
    return f"No {jobs} match these filters." if wanted.narrowed else f"No {jobs}."


def _archive(ui: Ui, wanted: JobFilters) -> dict[str, str] | None:
    """Where a job may be that is not in the list any more; None where none of those could be."""
    ended = not wanted.status or wanted.status in {one.value for one in FINISHED}
    if not (ended and wanted.narrowed) or visit().lacks(ui.routes["archive"], {}) is not None:
        return None
    found = {"name": wanted.values.get("name", ""), "key": wanted.values.get("business_key", "")}
    return {name: value for name, value in found.items() if value}


def _page(ui: Ui, wanted: JobFilters, size: int, status: int) -> tuple[Page[JobRow], Flash | None, int]:
    try:
        page = ui.admin.list_jobs(
            **wanted.query,
            order=wanted.order,
            cursor=request.args.get("cursor") or None,
            page_size=size,
            scope=visit().scope,
        )
    except errors.InvalidOption as error:
        if wanted.refused:
            which = "this filter" if len(wanted.refused) == 1 else "these filters"
            return Page(()), Flash("bad", f"Check {which}.", " ".join(_refusals(wanted))), 400
        if error.field == "cursor":
            return Page(()), Flash("bad", "No such page of the list.", LOST_PLACE), 400
        return Page(()), Flash("bad", "These filters do not work.", f"{error}."), 400
    except errors.ReadTimeout:
        text = "Narrow the time range or choose a queue; the filters still work."
        return Page(()), Flash("bad", "The query took too long and was stopped.", text), 503
    return page, None, status


def _refusals(wanted: JobFilters) -> list[str]:
    labels = {"status": "Status", **filters.LABELS}
    return [f"{labels[name]}: {why[:1].lower()}{why[1:]}" for name, why in wanted.refused.items()]


def _suggestions(ui: Ui, wanted: JobFilters) -> list[Suggestion]:
    """Names and queues that are like those that were typed, where nothing is called so."""
    typed = {field: wanted.values[field] for field in ("name", "queue") if field in wanted.values}
    if not typed:
        return []
    names = ui.admin.known_names(visit().scope)
    exist = {"name": names.names, "queue": names.queues}
    made = [
        Suggestion(field, given, like(given, exist[field]))
        for field, given in typed.items()
        if given not in exist[field]
    ]
    return [one for one in made if one.names]


def _tabs(ui: Ui, wanted: JobFilters) -> list[tuple[str, str, Any]]:
    overview = None if wanted.narrowed else ui.snapshots.recent(visit().scope)
    tabs: list[tuple[str, str, Any]] = [("", "All", "")]
    for status in TABS:
        count = "" if overview is None else overview.count(status)
        # Nothing can wait for other jobs yet; the tab comes with the first that does.
        if status is not Status.WAITING or wanted.status == status or count:
            tabs.append((status.value, status.value.capitalize(), count))
    return tabs


def _bulk_commands(page: Page[JobRow]) -> list[str]:
    """The commands that at least one row can take, in the order of the state machine's table."""
    possible = {action for row in page for action in row.actions}
    names = {"run_now": "run"}
    found = [names.get(action, action) for action in ("retry", "run_now", "pause", "resume", "cancel", "delete")
             if action in possible]  # fmt: skip
    return [command for command in found if visit().may(f"bulk.{command}")]


def known(ui: Ui) -> dict[str, list[str]]:
    """Names and queues that this application defines and the actor sees, for the filters to suggest."""
    definitions = [one for one in getattr(ui.jobs, "definitions", ()) if visit().sees(one.queue)]
    names = sorted({definition.name for definition in definitions})
    return {"names": names[:200], "queues": sorted({definition.queue for definition in definitions})[:200]}


ROUTES = (Route("/jobs", "jobs", show, "job.view", query=(*filters.NAMES, "order", "size", "cursor")),)
