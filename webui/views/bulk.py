"""Commands on many jobs: a preview first, then the act, answered with a tally.

A request does one part of a large bulk command, so that none sits there for long. The page that answers says how far it
is and continues by itself, or by a button where there is no script. Its cursor makes sure that nothing is done twice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from flask import Response, request, url_for

from sloppyjobs import errors
from sloppyjobs.domain.causes import cause_id
from sloppyjobs.views import BulkResult
from webui import filters, hidden_details, numbers, page_context
from webui.command_response import Show, actor_and_reason, respond
from webui.labels import COMMAND_ICONS, ENDING_COMMANDS
from webui.policy import COMMANDS
from webui.rendering import Flash, flash_later, is_htmx, render
from webui.routes import Route
from webui.ui import Ui, visit
from webui.views import cause, dead
from webui.views.job import METHODS

MOST = 10_000
SELECTED = 1_000
"""Jobs that can be selected one by one."""
AT_ONCE = 1_000
"""Jobs that one request commands."""
VERBS = {
    "retry": "retried",
    "run": "queued to run now",
    "pause": "paused",
    "resume": "resumed",
    "cancel": "cancelled",
    "delete": "deleted",
}
EFFECTS = {
    "retry": "They are queued at once, each with its full number of attempts again.",
    "run": "They are queued at once, whatever their run times were.",
    "pause": "They are held back until somebody resumes them.",
    "resume": "They return to where they were paused from.",
    "cancel": "They will not run. Running handlers are told to stop.",
    "delete": "They leave every list now and are purged later. What their attempts did is not undone.",
}
"""What a command does to jobs, in words."""
_COMMAND = "any(" + ", ".join(COMMANDS) + ")"
_CAUSE = ("error_type", "error_frame", "name")


class Origin(NamedTuple):
    """The page that a command came from, and returns to."""

    name: str
    endpoint: str
    label: str
    values: dict[str, Any]

    @property
    def address(self) -> str:
        """Where it is."""
        return url_for(f".{self.endpoint}", **self.values)

    @property
    def nav(self) -> str:
        """Its entry in the navigation."""
        return "jobs" if self.name == "jobs" else "dead"


class Chosen(NamedTuple):
    """Which jobs are meant: for the admin, for the hidden fields of the next form, and in words."""

    filter: dict[str, Any]
    fields: list[tuple[str, str]]
    limit: int
    origin: Origin
    words: str


class BadLimit(Exception):
    """The form says how many, but not by a number that can be meant."""


def chosen(ui: Ui) -> Chosen:
    """The jobs that the form means: a selection, a cause of death, or what the filters match."""
    given = request.values
    ids = given.getlist("id")[:SELECTED]
    origin = _origin(ui)
    if ids and not given.get("matching"):
        fields = [*(("id", id) for id in ids), *_from(ui, origin)]
        return Chosen({"ids": ids}, fields, len(ids), origin, "selected")
    if given.get("cause"):
        parts = {name: given.get(name) or None for name in _CAUSE}
        fields = [("cause", "1"), *((name, value) for name, value in parts.items() if value)]
        limit = _limit(MOST)
        fields += [("limit", str(limit))] if "limit" in given else []
        return Chosen({"status": "dead", **parts}, fields, limit, origin, "of this cause")
    if not given.get("matching"):
        raise errors.InvalidOption("no job is selected; select at least one")
    wanted = filters.parse(given, page_context.preferences_of(ui).tz)
    # Without any filter "all that match" would be all there are; the admin refuses that, and so do we.
    return Chosen(dict(wanted.query), [("matching", "1"), *_list_fields(ui)], MOST, origin, "that match")


def _origin(ui: Ui) -> Origin:
    """Where the form was; a cause in a form comes from the dead jobs, whatever else it says."""
    given = request.values
    if given.get("from") == "cause" and given.get("name"):
        id = cause_id(given["name"], given.get("error_type") or None, given.get("error_frame") or None)
        return Origin("cause", "cause", "Cause", {"cause": id})
    if given.get("from") == "dead" or given.get("cause"):
        return Origin("dead", "dead", "Dead", {})
    return Origin("jobs", "jobs", "Jobs", dict(_list_fields(ui)))


def _from(ui: Ui, origin: Origin) -> list[tuple[str, str]]:
    """The fields by which the next form knows where it came from."""
    if origin.name != "cause":
        return _list_fields(ui)
    return [(name, request.values[name]) for name in _CAUSE if request.values.get(name)]


def _list_fields(ui: Ui) -> list[tuple[str, str]]:
    wanted = filters.parse(request.values, page_context.preferences_of(ui).tz)
    return list(wanted.values.items())


def _limit(most: int) -> int:
    """How many at most: all, unless the form says how many; then exactly that."""
    if "limit" not in request.values:
        return most
    found = numbers.whole(request.values["limit"], most)
    if found is None:
        raise BadLimit
    return found


def _refused(ui: Ui) -> Response:
    """The page of dead jobs; the number that was refused stands where it was typed, and nothing was done."""
    given = request.values
    id = cause_id(given.get("name", ""), given.get("error_type") or None, given.get("error_frame") or None)
    refused = numbers.refusal(id, "count", given.get("limit", ""), MOST)
    flash = Flash("bad", "Nothing was done.", refused.text)
    if visit().lacks(ui.routes["dead"], {}) is not None:
        return render(ui, "done.html", title=flash.title, status=422, done=flash)
    return ui.admin.snapshot(lambda: dead.show(ui, flashes=(flash,), status=422, refused=refused))


def preview(ui: Ui, command: str) -> Response:
    """What would happen: how many, which are skipped and why, and a few of them. Changes nothing."""
    try:
        meant = chosen(ui)
    except BadLimit:
        return _refused(ui)
    outcome = hidden_details.bulk(_run(ui, command, meant, dry_run=True))
    return render(
        ui,
        "confirm-bulk.html",
        here=meant.origin.address if request.method == "POST" else "",
        title=f"{command.capitalize()} jobs",
        nav=meant.origin.nav,
        command=command,
        result=outcome,
        meant=meant,
        icon=COMMAND_ICONS[command],
        effect=EFFECTS[command],
        ends=command in ENDING_COMMANDS,
    )


def act(ui: Ui, command: str) -> Response:
    """Do it, or the next part of it, and say what was done and what was not. Never more jobs than the preview found."""
    try:
        meant = chosen(ui)
    except BadLimit:
        return _refused(ui)
    found = numbers.whole(request.form.get("total", ""), meant.limit)
    if found is not None:
        meant = meant._replace(limit=found)
    cursor = request.form.get("cursor") or None
    outcome = _run(ui, command, meant, dry_run=False, cursor=cursor)
    if outcome.next_cursor is not None:
        return _progress(ui, command, meant, outcome)
    flash = tally(outcome, VERBS[command])
    origin = meant.origin
    if origin.name != "jobs" and not (cursor and is_htmx()):
        return respond(ui, flash, 200, origin.endpoint, _PAGES[origin.name], **origin.values)
    ui.snapshots.clear()
    flash_later(ui, flash)
    if is_htmx():
        # From the page of its progress to the list, as the redirect does for a browser without a script.
        return Response(status=200, headers={"HX-Redirect": origin.address})
    return Response(status=303, headers={"Location": origin.address})


def _progress(ui: Ui, command: str, meant: Chosen, outcome: BulkResult) -> Response:
    ui.snapshots.clear()
    total = numbers.whole(request.form.get("total", ""), MOST) or 0
    fields = [*meant.fields, ("from", meant.origin.name), ("reason", actor_and_reason()["reason"] or "")]
    return render(
        ui,
        "bulk-progress.html",
        here=meant.origin.address,
        title=f"{command.capitalize()} jobs",
        nav=meant.origin.nav,
        command=command,
        back=meant.origin.address,
        result=outcome,
        verb=VERBS[command],
        fields=fields,
        total=max(total, outcome.matched),
        skipped=sum(outcome.skipped.values()),
        known=total > 0,
    )


def _run(ui: Ui, command: str, meant: Chosen, *, dry_run: bool, cursor: str | None = None) -> BulkResult:
    return ui.admin.bulk(
        METHODS.get(command, command),
        meant.filter,
        limit=meant.limit,
        dry_run=dry_run,
        at_once=AT_ONCE,
        cursor=cursor,
        scope=visit().scope,
        **actor_and_reason(),
    )


def tally(outcome: BulkResult, verb: str) -> Flash:
    """``97 retried, 3 skipped``: and why, and whether there is more."""
    skipped = sum(outcome.skipped.values())
    title = f"{outcome.done:,} {verb}" + (f", {skipped:,} skipped" if skipped else "") + "."
    parts = [f"{count:,} skipped: {why}." for why, count in outcome.skipped.items()]
    if outcome.more:
        parts.append("More jobs match. Do it again for the rest.")
    return Flash("ok" if outcome.done else "warn", title, " ".join(parts))


_PAGES: dict[str, Show] = {"dead": dead.show, "cause": cause.show}

ROUTES = (
    Route(f"/bulk/<{_COMMAND}:command>/preview", "bulk_preview", preview, "bulk.{command}", "POST", dry=True),
    Route(
        f"/dead/<{_COMMAND}:command>",
        "dead_confirm",
        preview,
        "bulk.{command}",
        query=("cause", *_CAUSE, "limit", "from"),
    ),
    Route(f"/bulk/<{_COMMAND}:command>", "bulk_act", act, "bulk.{command}", "POST"),
)
