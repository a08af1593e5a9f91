"""Commands on many jobs: a preview first, then the act, answered with a tally."""

from __future__ import annotations

from typing import Any, NamedTuple

from flask import Response, request, url_for

from sloppyjobs.views import BulkResult
from webui import filters, preferences
from webui.acting import answer, who
from webui.policy import COMMANDS
from webui.rendering import Flash, keep, render
from webui.routes import Route
from webui.ui import Ui, visit
from webui.views import dead
from webui.views.job import METHODS

MOST = 10_000
AT_ONCE = 1_000
VERBS = {
    "retry": "retried",
    "run": "queued to run now",
    "pause": "paused",
    "resume": "resumed",
    "cancel": "cancelled",
    "delete": "deleted",
}
_COMMAND = "any(" + ", ".join(COMMANDS) + ")"
_CAUSE = ("error_type", "error_frame")


class Chosen(NamedTuple):
    """Which jobs are meant: for the admin, for the hidden fields of the next form, and in words."""

    filter: dict[str, Any]
    fields: list[tuple[str, str]]
    limit: int
    origin: str
    words: str


def chosen(ui: Ui) -> Chosen:
    """The jobs that the form means: a selection, a cause of death, or what the filters match."""
    given = request.values
    ids = given.getlist("id")[:AT_ONCE]
    origin = "dead" if given.get("from") == "dead" else "jobs"
    if ids and not given.get("matching"):
        return Chosen({"ids": ids}, [*(("id", id) for id in ids), *_list_fields(ui)], len(ids), origin, "selected")
    if given.get("cause"):
        cause = {name: given.get(name) or None for name in _CAUSE}
        fields = [("cause", "1"), *((name, value) for name, value in cause.items() if value)]
        return Chosen({"status": "dead", **cause}, fields, _limit(MOST), "dead", "of this cause")
    wanted = filters.parse(given, preferences.read(request, ui.cookie).tz)
    # Without any filter "all that match" would be all there are; the admin refuses that, and so do we.
    return Chosen(dict(wanted.query), [("matching", "1"), *_list_fields(ui)], AT_ONCE, origin, "that match")


def _list_fields(ui: Ui) -> list[tuple[str, str]]:
    wanted = filters.parse(request.values, preferences.read(request, ui.cookie).tz)
    return list(wanted.values.items())


def _limit(most: int) -> int:
    given = request.values.get("limit", "")
    return min(most, int(given)) if given.isascii() and given.isdigit() and 0 < len(given) < 6 and int(given) else most


def preview(ui: Ui, command: str) -> Response:
    """What would happen: how many, which are skipped and why, and a few of them. Changes nothing."""
    meant = chosen(ui)
    outcome = _run(ui, command, meant, dry_run=True)
    return render(ui, "confirm-bulk.html", title=f"{command.capitalize()} jobs", nav=meant.origin,
                  command=command, result=outcome, meant=meant)  # fmt: skip


def act(ui: Ui, command: str) -> Response:
    """Do it, and say what was done and what was not."""
    meant = chosen(ui)
    outcome = _run(ui, command, meant, dry_run=False)
    flash = tally(outcome, VERBS[command])
    if meant.origin == "dead":
        return answer(ui, flash, 200, "dead", dead.show)
    ui.snapshots.forget()
    keep(ui, flash)
    values: dict[str, Any] = dict(_list_fields(ui))
    return Response(status=303, headers={"Location": url_for(".jobs", **values)})


def _run(ui: Ui, command: str, meant: Chosen, *, dry_run: bool) -> BulkResult:
    return ui.admin.bulk(
        METHODS.get(command, command),
        meant.filter,
        limit=meant.limit,
        dry_run=dry_run,
        scope=visit().scope,
        **who(),
    )


def tally(outcome: BulkResult, verb: str) -> Flash:
    """``97 retried, 3 skipped``: and why, and whether there is more."""
    skipped = sum(outcome.skipped.values())
    title = f"{outcome.done:,} {verb}" + (f", {skipped:,} skipped" if skipped else "") + "."
    parts = [f"{count:,} skipped: {why}." for why, count in outcome.skipped.items()]
    if outcome.more:
        parts.append("More jobs match: do it again for the rest.")
    return Flash("ok" if outcome.done else "warn", title, " ".join(parts))


ROUTES = (
    Route(f"/bulk/<{_COMMAND}:command>/preview", "bulk_preview", preview, "bulk.{command}", "POST"),
    Route(f"/dead/<{_COMMAND}:command>", "dead_confirm", preview, "bulk.{command}"),
    Route(f"/bulk/<{_COMMAND}:command>", "bulk_act", act, "bulk.{command}", "POST"),
)
