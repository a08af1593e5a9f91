"""The form of a schedule: what was typed, what is wrong with it, and when it would fire."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from sloppyjobs import errors
from sloppyjobs.schedules import timetable
from sloppyjobs.schedules.cron import find_zone
from sloppyjobs.schedules.cron_words import cron_in_words, interval_in_words
from sloppyjobs.schedules.occurrences import Recurring
from webui import filters, page_context
from webui.ui import Ui, visit

FIRES = 5
KINDS = {"cron": "By a cron expression", "every": "At an interval", "once": "Once"}
MISFIRES = {
    "run-once": "Run once, for the latest",
    "catch-up-limited": "Catch up, with a limit",
    "ignore": "Ignore them",
}
UNTOUCHED = {"kind": "cron", "timezone": "UTC", "misfire": "run-once", "catch_up_limit": "10"}
"""What stands in the form of a new schedule."""
LABELS = {
    "name": "Name", "job": "Job", "kind": "Kind", "when": "When", "timezone": "Time zone", "payload": "Payload",
    "queue": "Queue", "priority": "Priority", "misfire": "If fires were missed",
    "catch_up_limit": "Fires to catch up on",
}  # fmt: skip
TIMING = ("kind", "when", "timezone")
_ASKED = {
    "cron": "Write five fields, such as 30 2 * * *.",
    "every": "Write a length of time, such as 90, 5m or 2h.",
    "once": "Write a date and a time, such as 2030-01-31T09:00.",
}
_NAMES = {"cron": "when", "every": "when", "at": "when", "job_name": "job"}
"""Fields of the form, by the options that they become."""
_SPAN = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([smhdw]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Read(NamedTuple):
    """What a form asks for, as options of the admin; and what is wrong, by field."""

    options: dict[str, Any]
    wrong: dict[str, str]


class Preview(NamedTuple):
    """When a schedule would fire."""

    words: str | None = None
    fires: Sequence[datetime] = ()
    zone: ZoneInfo = ZoneInfo("UTC")
    trouble: str = ""
    """Why that cannot be said."""


def read(typed: Mapping[str, str]) -> Read:
    """All but the name and the job; what can be read alone is checked alone, so that every wrong field is named."""
    options: dict[str, Any] = {"timezone": typed.get("timezone", "").strip() or "UTC"}
    wrong = read_timing(typed, options)
    options["queue"] = typed.get("queue", "").strip() or None
    for field, empty in (("priority", None), ("catch_up_limit", 10)):
        text = typed.get(field, "").strip().replace(",", "")
        try:
            options[field] = int(text) if text else empty
        except ValueError:
            wrong[field] = "Write a whole number, such as 10."
    options["misfire"] = typed.get("misfire", "") or "run-once"
    if typed.get("payload", "").strip():
        try:
            options["payload"] = msgspec.json.decode(typed["payload"])
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            wrong["payload"] = 'Write JSON, such as {"days": 1}.'
    return Read(options, wrong)


def read_timing(typed: Mapping[str, str], options: dict[str, Any]) -> dict[str, str]:
    """Put the timing into the options, which have the zone; what is wrong with it."""
    kind, text = typed.get("kind", ""), typed.get("when", "").strip()
    if kind not in KINDS:
        return {"kind": "Choose one from the list."}
    try:
        given = _timing(kind, text, options["timezone"])
        if given is None:
            return {"when": _ASKED[kind]}
        timetable.parse(**given, timezone=options["timezone"], now=datetime.now(UTC))
    except errors.InvalidSchedule as error:
        return wrong_field(error)
    options.update(given)
    return {}


def _timing(kind: str, text: str, zone: str) -> dict[str, Any] | None:
    if kind == "cron":
        return {"cron": text} if text else None
    if kind == "every":
        match = _SPAN.fullmatch(text.replace(",", ""))
        return None if match is None else {"every": float(match[1]) * _SECONDS[match[2]]}
    found = filters.moment(text, find_zone(zone))
    return None if found is None else {"at": found}


def wrong_field(error: errors.InvalidSchedule | errors.InvalidOption) -> dict[str, str]:
    """The field that an error is about, and a sentence for it."""
    field = _NAMES.get(error.field or "", error.field or "when")
    if isinstance(error, errors.InvalidOption):
        return {field: filters.sentence(error)}
    if error.reason is None:
        return {field: f"{error}."}
    if error.reason.startswith(("a day that exists", "a schedule that fires")):
        return {field: "This never fires. Choose a day that one of its months has."}
    return {field: f"{'Choose' if field == 'misfire' else 'Write'} {error.reason.rstrip('.')}."}


def preview(typed: Mapping[str, str], known: Recurring | None = None) -> Preview | None:
    """When what was typed would fire; None before anything was. ``known`` is the schedule that is edited."""
    if not typed.get("when", "").strip():
        return None
    options: dict[str, Any] = {"timezone": typed.get("timezone", "").strip() or "UTC"}
    wrong = read_timing(typed, options)
    if wrong:
        return Preview(trouble=next(iter(wrong.values())))
    now = datetime.now(UTC)
    parsed = timetable.parse(**options, now=now)
    unchanged = known is not None and all(typed.get(field) == values_of(known)[field] for field in TIMING)
    fires = known.upcoming(FIRES, now) if known is not None and unchanged else timetable.preview(parsed, now, FIRES)
    return Preview(_words(parsed), fires, ZoneInfo(parsed.timezone))


def _words(parsed: timetable.Schedule) -> str | None:
    if parsed.every is not None:
        return interval_in_words(parsed.every)
    return "Once" if parsed.cron is None else cron_in_words(parsed.cron)


def values_of(schedule: Recurring) -> dict[str, str]:
    """What stands in the form of a schedule; its payload does not."""
    return {
        "kind": {"interval": "every"}.get(schedule.kind, schedule.kind),
        "when": _when(schedule),
        "timezone": schedule.timezone,
        "queue": schedule.queue,
        "priority": str(schedule.priority),
        "misfire": schedule.misfire,
        "catch_up_limit": str(schedule.catch_up_limit),
    }


def _when(schedule: Recurring) -> str:
    if schedule.every is not None:
        return f"{schedule.every:.6f}".rstrip("0").rstrip(".")
    if schedule.at is not None:
        zone = ZoneInfo(schedule.timezone if page_context.known_zone(schedule.timezone) else "UTC")
        return schedule.at.astimezone(zone).replace(tzinfo=None).isoformat().removesuffix(":00")
    return schedule.cron or ""


def digest(schedule: Recurring) -> str:
    """What a form was filled with: who sends it finds out where somebody has changed the schedule meanwhile."""
    return hashlib.sha256(msgspec.json.encode(values_of(schedule))).hexdigest()[:16]


def changes(schedule: Recurring, typed: Mapping[str, str], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Of what is asked for, what differs from the schedule: a queue that its job defines does not become its own."""
    before = values_of(schedule)
    differ = {field for field, value in before.items() if typed.get(field, "").strip() != value}
    fields = {"queue", "priority", "misfire", "catch_up_limit"} & differ
    if differ & set(TIMING):
        fields |= {"cron", "every", "at", "timezone"}
    return {name: asked[name] for name in (*sorted(fields), "payload") if name in asked}


def check_queue(ui: Ui, job_name: object, queue: object) -> None:
    """Refuse a queue that the actor does not see; where None is given, it is the one that the job defines."""
    if visit().scope is None:
        return
    if queue is None:
        queue = next((one.queue for one in getattr(ui.jobs, "definitions", ()) if one.name == job_name), None)
    if not isinstance(queue, str) or not visit().sees(queue):
        words = "must be one that you see"
        raise errors.InvalidOption(f"queue {words}", field="queue", reason=words)
