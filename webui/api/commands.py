"""Commands of the API. The name of the token is the actor; the body may give a reason."""

from __future__ import annotations

from typing import Any

import msgspec
from flask import Response

from sloppyjobs import errors
from webui import hidden_details
from webui.api.answers import answer, body, text
from webui.api.reads import get_recurring
from webui.ui import Ui, visit
from webui.views.archive import visible as archived
from webui.views.bulk import AT_ONCE
from webui.views.job import METHODS, visible


class SignalAnswer(msgspec.Struct, frozen=True):
    """Whether a signal was accepted; false where the job has one of this name."""

    accepted: bool


def _by(given: dict[str, Any]) -> dict[str, Any]:
    return {"actor": visit().actor_name, "reason": text(given, "reason")}


def job(ui: Ui, id: str, command: str) -> Response:
    """Command one job; 409 where the state machine has no such edge."""
    if visit().scope is not None:
        visible(ui, id)
    method: Any = getattr(ui.admin, METHODS.get(command, command))
    done = method(id, **_by(body()))
    ui.snapshots.clear()
    return answer(hidden_details.commanded(done))


def patch(ui: Ui, id: str) -> Response:
    """Change keys of a job's payload by a JSON merge patch, without showing it; 409 for a job that runs."""
    if visit().scope is not None:
        visible(ui, id)
    given = body("merge_patch")
    if "merge_patch" not in given:
        raise errors.InvalidOption('merge_patch is missing: {"merge_patch": {"key": "value"}, "reason": "…"}')
    done = ui.admin.patch_payload(id, given["merge_patch"], **_by(given))
    return answer(hidden_details.commanded(done))


def signal(ui: Ui, id: str) -> Response:
    """Send a signal to a job; the first one of a name wins. 409 for a job that has finished."""
    if visit().scope is not None:
        visible(ui, id)
    given = body("name", "payload")
    sent = ui.admin.signal(id, given.get("name", ""), given.get("payload"), **_by(given))
    ui.snapshots.clear()
    return answer(SignalAnswer(sent))


def test_alert(ui: Ui, name: str) -> Response:
    """Send a test to whom a rule for alerts tells."""
    return answer(ui.admin.test_alert(name, **_by(body())))


def restore(ui: Ui, id: str) -> Response:
    """Enqueue an archived job as a new one; 409 where its business key is taken, or where it was restored already."""
    if visit().scope is not None:
        archived(ui, id)
    done = ui.admin.restore(id, **_by(body()))
    ui.snapshots.clear()
    return answer(hidden_details.commanded(done))


def mute_alert(ui: Ui, name: str) -> Response:
    """Let a rule for alerts tell nobody, until an instant or an unmute."""
    given = body("until")
    return answer(ui.admin.mute_alert(name, text(given, "until"), **_by(given)))


def unmute_alert(ui: Ui, name: str) -> Response:
    """Let a rule for alerts tell again."""
    return answer(ui.admin.unmute_alert(name, **_by(body())))


def batch(ui: Ui, id: str, command: str) -> Response:
    """Seal a batch, cancel its jobs that have not ended, or retry its dead ones; 409 where that cannot be done."""
    method: Any = getattr(ui.admin, f"{command}_batch")
    done = method(id, **_by(body()), scope=visit().scope)
    ui.snapshots.clear()
    return answer(done)


def bulk(ui: Ui, command: str) -> Response:
    """Command every job that a filter finds; ``dry_run`` shows what would happen.

    One request commands at most a thousand. While the answer has a ``next_cursor``, send the same body with it as
    ``cursor``; the numbers are those of all requests together.
    """
    given = body("filter", "limit", "dry_run", "cursor")
    chosen, limit = given.get("filter"), given.get("limit", 1_000)
    if not isinstance(chosen, dict):
        raise errors.InvalidOption('filter must be a JSON object, such as {"status": "dead"}')
    tally = ui.admin.bulk(
        METHODS.get(command, command),
        chosen,
        limit=limit,
        dry_run=given.get("dry_run", False),
        at_once=AT_ONCE,
        cursor=text(given, "cursor"),
        scope=visit().scope,
        **_by(given),
    )
    ui.snapshots.clear()
    return answer(hidden_details.bulk(tally))


def queue(ui: Ui, name: str, command: str) -> Response:
    """Pause a queue, until an instant or a resume; or resume it."""
    if not visit().sees(name):
        raise errors.UnknownQueue(f"no queue is called {name!r}")
    given = body("until") if command == "pause" else body()
    if command == "pause":
        return answer(ui.admin.pause_queue(name, until=text(given, "until"), **_by(given)))
    return answer(ui.admin.resume_queue(name, **_by(given)))


def age_queue(ui: Ui, name: str) -> Response:
    """Let priorities of a queue rise by one every so many seconds, up to ``most``; null turns it off."""
    if not visit().sees(name):
        raise errors.UnknownQueue(f"no queue is called {name!r}")
    given = body("every", "most")
    if "every" not in given:
        raise errors.InvalidOption('every is missing: {"every": 60, "most": 10}, or {"every": null} to turn it off')
    ui.admin.set_queue_ageing(name, given["every"], given.get("most", 10), **_by(given))
    ui.snapshots.clear()
    return answer(ui.admin.get_queue(name))


def workflow(ui: Ui, id: str, command: str) -> Response:
    """Cancel every job of a workflow that has not ended, or retry its dead ones; a tally."""
    method: Any = getattr(ui.admin, f"{command}_workflow")
    done = method(id, scope=visit().scope, **_by(body()))
    ui.snapshots.clear()
    return answer(hidden_details.bulk(done))


def worker(ui: Ui, id: str, command: str) -> Response:
    """Let a worker take no new jobs, take them again, or stop, from its next heartbeat on; 409 for one that stops."""
    method: Any = getattr(ui.admin, f"{command}_worker")
    done = method(id, **_by(body()))
    ui.snapshots.clear()
    return answer(hidden_details.worker(done))


def recurring(ui: Ui, name: str, command: str) -> Response:
    """Pause, resume, trigger or delete a schedule."""
    if visit().scope is not None:
        get_recurring(ui, name)
    method: Any = getattr(ui.admin, f"{command}_recurring")
    done = method(name, **_by(body()))
    ui.snapshots.clear()
    return answer(hidden_details.commanded(done) if command == "trigger" else hidden_details.schedule(done))
