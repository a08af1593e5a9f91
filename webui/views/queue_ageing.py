"""Change whether priorities of a queue rise while its jobs wait."""

from __future__ import annotations

from flask import Response, request

from sloppyjobs import errors
from webui import fields, filters
from webui.command_response import actor_and_reason, refuse, respond, run_command
from webui.rendering import Flash
from webui.routes import Route
from webui.ui import Ui
from webui.views import queues

MOST = 10
"""By how much priorities rise at most, unless something else is asked for."""


def change(ui: Ui, name: str) -> Response:
    """Let priorities rise, or stay as they are; refused in place where a number makes no sense."""
    queues.visible(ui, name)
    every, most, wrong = _typed()
    if wrong:
        return _refuse(ui, name, wrong)

    def run() -> Flash:
        ui.admin.set_queue_ageing(name, every, most, **actor_and_reason())
        more = (
            "Jobs that have risen keep their priority." if every is None else "Workers raise them about once a minute."
        )
        return Flash("ok", f"{name}: {queues.ageing_words(ui.admin.get_queue(name))}", more)

    try:
        flash, status = run_command(run)
    except errors.InvalidOption as error:
        return _refuse(ui, name, {error.field or "every": filters.sentence(error)})
    return respond(ui, flash, status, "queue", queues.show_one, name=name)


def _typed() -> tuple[float | None, int, dict[str, str]]:
    """What the form asks for, and what is wrong with it."""
    wrong: dict[str, str] = {}
    every, most = (request.form.get(field, "").strip().replace(",", "") for field in ("every", "most"))
    if not every:
        return None, MOST, wrong
    seconds, steps = 0.0, MOST
    try:
        seconds = float(every)
    except ValueError:
        wrong["every"] = "Write seconds, such as 60."
    try:
        steps = int(most)
    except ValueError:
        wrong["most"] = "Write a whole number, such as 10."
    return seconds, steps, wrong


def _refuse(ui: Ui, name: str, wrong: dict[str, str]) -> Response:
    said = next(iter(wrong.values()))
    return refuse(ui, said, fields.refused(**wrong), "queue", queues.show_one, name=name)


ROUTES = (Route("/queues/<path:name>/age", "queue_age", change, "queue.age", "POST"),)
