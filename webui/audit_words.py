"""The audit trail in words: what was done, to what, and the details. The only place that knows the names of actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from markupsafe import Markup

from sloppyjobs.domain.ageing import rising
from sloppyjobs.domain.limit_words import limit_words
from sloppyjobs.views import AuditEntry
from webui.labels import counted
from webui.times import Times

FEW = 3
"""Jobs that are named one by one, of those that were chosen."""


class Link(Protocol):
    """From a kind of target (``job``, ``archived``, ``queue``, ``schedule``, ``cause``) and its name to a link."""

    def __call__(self, kind: str, target: str, text: str | None = None, /) -> Markup: ...


class Words(NamedTuple):
    """What an action is called: in the list of actions, and in a sentence before and after its target."""

    icon: str
    label: str
    before: str
    after: str = ""


ACTIONS: Mapping[str, Words] = {
    "retry": Words("retrying", "Retried jobs", "Retried"),
    "cancel": Words("cancelled", "Cancelled jobs", "Cancelled"),
    "delete": Words("deleted", "Deleted jobs", "Deleted"),
    "run_now": Words("play", "Queued jobs at once", "Queued", "at once"),
    "pause": Words("pause", "Paused jobs", "Paused"),
    "resume": Words("play", "Resumed jobs", "Resumed"),
    "signal": Words("signal", "Sent signals", "Sent a signal to"),
    "patch_payload": Words("edit", "Patched payloads", "Patched the payload of"),
    "retry_canary": Words("retrying", "Retried a few jobs of a cause", "Retried a few jobs of the cause"),
    "retry_rest": Words("retrying", "Retried the rest of a cause", "Started to retry the rest of the cause"),
    "stop_retry": Words("cancelled", "Stopped a retry", "Stopped the retry of the cause"),
    "stop_retry_run": Words("cancelled", "Stopped a retry", "Stopped the retry of the cause"),
    "pause_queue": Words("pause", "Paused a queue", "Paused the queue"),
    "resume_queue": Words("play", "Resumed a queue", "Resumed the queue"),
    "quiet_worker": Words("pause", "Quieted a worker", "Quieted the worker"),
    "resume_worker": Words("play", "Resumed a worker", "Resumed the worker"),
    "stop_worker": Words("stop", "Stopped a worker", "Stopped the worker"),
    "mark_deploy": Words("deploy", "Marked a deploy", "Marked the deploy of"),
    "create_recurring": Words("recurring", "Created a schedule", "Created the schedule"),
    "edit_recurring": Words("edit", "Changed a schedule", "Changed the schedule"),
    "trigger_recurring": Words("bolt", "Triggered a schedule", "Triggered the schedule"),
    "pause_recurring": Words("pause", "Paused a schedule", "Paused the schedule"),
    "resume_recurring": Words("play", "Resumed a schedule", "Resumed the schedule"),
    "delete_recurring": Words("deleted", "Deleted a schedule", "Deleted the schedule"),
    "test_alert": Words("alerts", "Tested alerts", "Sent a test of the alert"),
    "mute_alert": Words("pause", "Muted an alert", "Muted the alert"),
    "unmute_alert": Words("play", "Unmuted an alert", "Unmuted the alert"),
    "set_queue_ageing": Words("queues", "Changed the ageing of a queue", "Changed the ageing of the queue"),
    "set_limit": Words("limits", "Changed a limit", "Changed the limit"),
    "delete_limit": Words("deleted", "Deleted a limit", "Deleted the limit"),
    "release_permit": Words("limits", "Released a permit", "Released the permit of"),
    "cancel_workflow": Words("cancelled", "Cancelled workflows", "Cancelled"),
    "retry_workflow": Words("retrying", "Retried workflows", "Retried the dead jobs of"),
    "seal_batch": Words("locks", "Sealed a batch", "Sealed the batch"),
    "cancel_batch": Words("cancelled", "Cancelled a batch", "Cancelled the batch"),
    "retry_batch": Words("retrying", "Retried the dead of a batch", "Retried the dead jobs of the batch"),
    "restore": Words("archive", "Restored archived jobs", "Restored", "as a new job"),
    "cleanup": Words("deleted", "Deleted old finished jobs", "Deleted old finished jobs"),
    "repair": Words("check", "Repaired what was blocked", "Repaired what was blocked"),
    "purge": Words("deleted", "Removed deleted jobs for good", "Removed deleted jobs for good"),
    "rekey": Words("locks", "Encrypted rows with the new key", "Encrypted rows with the new key"),
}
CHOICES = {name: words.label for name, words in ACTIONS.items() if name != "stop_retry_run"}
"""The actions that a filter offers."""

_LIMIT = ("concurrency", "rate", "per")
_OF_MANY = ("cleanup", "purge", "rekey", "repair")
_FILTERS = {
    "name": "job type",
    "tag": "tag",
    "error_type": "error",
    "error_frame": "raised in",
    "error_code": "error code",
    "correlation_id": "correlation id",
    "idempotency_key": "idempotency key",
    "business_key": "business key",
    "created_from": "created from",
    "created_to": "created before",
    "run_from": "due from",
    "run_to": "due before",
}
_MOMENTS = ("created_from", "created_to", "run_from", "run_to", "until")


class EntryText(NamedTuple):
    """An entry in words."""

    icon: str
    what: Markup
    details: tuple[Markup, ...]


def entry_text(entry: AuditEntry, times: Times, link: Link) -> EntryText:
    """The entry as a sentence with its target as a link, and its details; any action, and any detail, has a text."""
    words = ACTIONS.get(entry.action) or _unknown(entry.action)
    detail = dict(entry.detail)
    if entry.target_type == "jobs" and entry.action not in _OF_MANY:
        target, details = _bulk(detail, times, link)
    else:
        target = Markup("") if entry.action in _OF_MANY else _target(entry, detail, link)
        details = _details(entry.action, detail, times, link)
    until = detail.get("until") if entry.action in ("pause_queue", "mute_alert") else None
    parts = [Markup.escape(words.before), target, Markup.escape(words.after)]
    if until is not None:
        parts.append(Markup("until {}").format(_moment(until, times)))
    return EntryText(words.icon, Markup(" ").join(part for part in parts if part), tuple(details))


def _unknown(action: str) -> Words:
    label = action.replace("_", " ").capitalize()
    return Words("audit", label, label)


def _target(entry: AuditEntry, detail: dict[str, Any], link: Link) -> Markup:
    if entry.action == "restore":
        return Markup("the archived job {}").format(link("archived", entry.target))
    if entry.target_type == "workflow":
        return Markup("the workflow {}").format(link("workflow", entry.target))
    if entry.target_type == "job":
        return Markup("the job {}").format(link("job", entry.target))
    if entry.target_type == "cause" and "name" in detail:
        error = detail.pop("error_type", None) or "no error"
        text = link("cause", entry.target, f"{error} in {detail.pop('name')}")
        detail.pop("error_frame", None)
        return text
    if entry.target_type == "batch" and "name" in detail:
        return Markup("{} ({})").format(detail.pop("name"), link("batch", entry.target))
    return link(entry.target_type, entry.target)


# Many jobs at once


def _bulk(detail: dict[str, Any], times: Times, link: Link) -> tuple[Markup, list[Markup]]:
    done = detail.get("done", detail.get("matched", 0))
    count = Markup("{} job{}").format(f"{done:,}" if done else "no", "" if done == 1 else "s")
    details = []
    wanted = detail.get("filter")
    if isinstance(wanted, Mapping) and wanted.get("ids"):
        details.append(_chosen(wanted["ids"], link))
        wanted = {name: value for name, value in wanted.items() if name != "ids"}
    if isinstance(wanted, Mapping) and wanted:
        matched = [_filter(name, value, times) for name, value in wanted.items() if name != "error_frame" or value]
        details.append(Markup("that match {}").format(Markup(", ").join(matched)))
    return count, [*details, *_skipped(detail)]


def _skipped(detail: Mapping[str, Any]) -> list[Markup]:
    skipped = detail.get("skipped")
    if not isinstance(skipped, Mapping):
        return []
    return [Markup("{} skipped: {}").format(number, reason) for reason, number in skipped.items()]


def _chosen(ids: Any, link: Link) -> Markup:
    if not isinstance(ids, Sequence) or isinstance(ids, str):
        return Markup("chosen one by one")
    named = Markup(", ").join(link("job", str(id)) for id in ids[:FEW])
    rest = len(ids) - FEW
    return Markup("chosen one by one: {}{}").format(named, f" and {rest} more" if rest > 0 else "")


def _filter(name: str, value: Any, times: Times) -> Markup:
    label = _FILTERS.get(name, name.replace("_", " "))
    if value is None:
        return Markup("no {}").format(label)
    return Markup("{} {}").format(label, _value(name, value, times))


# Details of one target


def _details(action: str, detail: Mapping[str, Any], times: Times, link: Link) -> list[Markup]:
    left = {name: value for name, value in detail.items() if value not in (None, "", 0, False)}
    whole = _whole(action, left)
    if whole is not None:
        return whole
    details = []
    if "from" in left and "to" in left:
        details.append(Markup("from {} to {}").format(left.pop("from"), left.pop("to")))
    if action in ("trigger_recurring", "test_alert") and "job" in left:
        details.append(Markup("its job is {}").format(link("job", str(left.pop("job")))))
    if action == "patch_payload" and isinstance(left.get("keys"), Sequence):
        details.append(Markup("changed {}").format(", ".join(map(str, left.pop("keys")))))
    if action == "mark_deploy" and "note" in left:
        details.append(Markup.escape(str(left.pop("note"))))
    if action == "signal" and "signal" in left:
        details.append(Markup("it is called {}").format(left.pop("signal")))
    if action == "restore" and "new" in left:
        details.append(Markup("the new one is {}").format(link("job", str(left.pop("new")))))
    if action in ("create_recurring", "edit_recurring", "delete_recurring") and "job_name" in left:
        verb = "ran" if action == "delete_recurring" else "runs"
        details.append(Markup("it {} {}").format(verb, left.pop("job_name")))
    left.pop("until", None)
    left.pop("run", None)
    if isinstance(left.get("jobs"), int):
        details.append(Markup.escape(counted(left.pop("jobs"), "job")))
    return details + [_filter(name, value, times) for name, value in left.items()]


def _whole(action: str, left: Mapping[str, Any]) -> list[Markup] | None:
    """The details of an action whose details belong together; None for any other."""
    match action:
        case "set_limit" | "delete_limit":
            return limit_changes(left)
        case "cancel_workflow" | "retry_workflow":
            return [Markup.escape(counted(left.get("done", 0), "job")), *_skipped(left)]
        case "set_queue_ageing":
            return [_ageing(left)]
        case "cleanup" | "repair":
            return [Markup("{} {}").format(number, status) for status, number in left.items()]
        case "purge":
            return _purged(left)
        case "rekey":
            return [Markup("{} of {}").format(counted(left.get("rows", 0), "row"), left.get("area"))]
    return None


def limit_changes(detail: Mapping[str, Any]) -> list[Markup]:
    """What a limit was, and what it is since: ``from no limit to 2 at once``; of one that was deleted, what it was."""
    limits = {name: detail[name] for name in ("from", "to") if isinstance(detail.get(name), Mapping)}
    words = {name: limit_words(*(_number(limit, key) for key in _LIMIT)) for name, limit in limits.items()}
    if words.keys() == {"from"}:
        return [Markup("it was {}").format(words["from"])]
    return [Markup.escape(" ".join(f"{name} {limit}" for name, limit in words.items()))] if words else []


def _number(limit: Mapping[str, Any], key: str) -> Any:
    value = limit.get(key)
    return value if isinstance(value, int | float) else None


def _ageing(detail: Mapping[str, Any]) -> Markup:
    if "every" not in detail:
        return Markup("priorities do not change while jobs wait")
    return Markup("priorities {}").format(rising(detail["every"], detail.get("most", 0)))


def _purged(detail: Mapping[str, Any]) -> list[Markup]:
    where = "kept in the archive" if detail.get("archived") else "history included"
    details = [Markup("{}, {}").format(counted(detail["jobs"], "job"), where)] if "jobs" in detail else []
    if "audit" in detail:
        details.append(Markup.escape(counted(detail["audit"], "audit entry", "audit entries")))
    return details


def _value(name: str, value: Any, times: Times) -> Markup | str:
    if name in _MOMENTS:
        return _moment(value, times)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " or ".join(map(str, value))
    return Markup.escape(str(value))


def _moment(value: Any, times: Times) -> Markup | str:
    try:
        found = datetime.fromisoformat(str(value))
        return times.clock(found if found.tzinfo else found.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return Markup.escape(str(value))
