"""The filters of the job list: from a query string to the admin's options, and back into links."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from sloppyjobs import errors
from sloppyjobs.admin.filters import CHECKS
from sloppyjobs.domain.states import Status

RANGES = {"1h": "Last hour", "24h": "Last 24 hours", "7d": "Last 7 days", "30d": "Last 30 days"}
DATE = "write a date and a time, such as 2026-03-27T14:02"
_SPANS = {
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
EXACT = (
    "queue",
    "name",
    "tag",
    "worker",
    "schedule",
    "batch",
    "workflow",
    "correlation_id",
    "idempotency_key",
    "business_key",
    "error_code",
)
CAUSE = ("error_type", "error_frame")
DATES = ("created_from", "created_to")
LABELS = {
    "queue": "Queue",
    "name": "Name",
    "tag": "Tag",
    "worker": "Worker",
    "schedule": "Schedule",
    "batch": "Batch",
    "workflow": "Workflow",
    "correlation_id": "Correlation id",
    "idempotency_key": "Idempotency key",
    "business_key": "Business key",
    "error_code": "Error code",
    "error_type": "Error",
    "error_frame": "Raised in",
    "range": "Created",
    "created_from": "Created from",
    "created_to": "Created before",
}
NAMES = ("status", *EXACT, *CAUSE, "created_from", "created_to", "range", "since")
"""The query parameters that ``parse`` reads, besides the order."""
ORDERS = ("-created_at", "created_at")
TIMED_ORDERS = ("run_at", "-run_at")
_KEYS = frozenset(EXACT) - {"queue", "name", "worker", "error_code"}
_TIMED = frozenset({Status.SCHEDULED.value, Status.RETRYING.value})


class JobFilters(NamedTuple):
    """What a list of jobs is narrowed to. ``values`` are as they were typed, for links and forms."""

    values: Mapping[str, str]
    accepted: Mapping[str, Any]
    order: str
    refused: Mapping[str, str]
    """What is wrong with a value, by its field: a sentence for the person who typed it."""

    @property
    def query(self) -> Mapping[str, Any]:
        """For ``admin.list_jobs`` and ``admin.bulk``; ``InvalidOption`` where a value was refused.

        Without it, a list or a command would be about more jobs than was asked for.
        """
        for name, why in self.refused.items():
            raise errors.InvalidOption(f"{LABELS.get(name, 'Status')}: {why}")
        return self.accepted

    @property
    def status(self) -> str:
        """The tab; empty for all."""
        return self.values.get("status", "")

    @property
    def narrowed(self) -> dict[str, str]:
        """The filters in force that can be taken away one by one, by label."""
        return {name: value for name, value in self.values.items() if name in LABELS}

    def link(self, **changed: str | None) -> dict[str, str | None]:
        """Query parameters of this list with some changed; a page starts over."""
        parameters: dict[str, str | None] = {**self.values, "order": self.order if self.order != ORDERS[0] else None}
        if "range" in changed:
            parameters.pop("since", None)
        return {**parameters, **changed}


def parse(given: Mapping[str, str], zone: ZoneInfo, now: datetime | None = None) -> JobFilters:
    """The filters in a query string or a form. Invalid values stay as they were typed, and are refused."""
    values = {name: given[name].strip() for name in (*EXACT, *CAUSE, *DATES) if given.get(name, "").strip()}
    accepted: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for name, value in values.items():
        try:
            accepted[name] = _date(value, zone) if name in DATES else CHECKS[name](name, value)
        except errors.InvalidOption as error:
            refused[name] = sentence(error)
    if all(name in accepted for name in DATES) and accepted["created_from"] > accepted["created_to"]:
        refused["created_to"] = "Choose a time after “Created from”."
    status = given.get("status", "")
    if status:
        values["status"] = accepted["status"] = status
        if status not in {one.value for one in Status}:
            refused["status"] = f"No status is called “{status[:40]}”."
    _add_range(given, zone, now, values, accepted, refused)
    order = given.get("order", "")
    orders = ORDERS + (TIMED_ORDERS if _sortable_by_run_time(accepted) else ())
    return JobFilters(values, accepted, order if order in orders else ORDERS[0], refused)


def _add_range(
    given: Mapping[str, str],
    zone: ZoneInfo,
    now: datetime | None,
    values: dict[str, str],
    accepted: dict[str, Any],
    refused: dict[str, str],
) -> None:
    span = given.get("range", "")
    if not span:
        return
    values["range"] = span
    if span not in RANGES:
        refused["range"] = "Choose one of the ranges in the list."
    elif "created_from" in values:
        refused["range"] = "Choose a range or “Created from”, not both."
    else:
        # The start is pinned in the links, because a cursor belongs to one list with fixed filters.
        since = moment(given["since"], zone) if given.get("since") else None
        accepted["created_from"] = since or (now or datetime.now(UTC)) - _SPANS[span]
        values["since"] = accepted["created_from"].isoformat()


def _date(text: str, zone: ZoneInfo) -> datetime:
    found = moment(text, zone)
    if found is None:
        raise errors.InvalidOption(DATE, reason=DATE)
    return found


def sentence(error: errors.InvalidOption) -> str:
    """What an option must be, without its name and its value, which stand above it."""
    words = error.reason or str(error)
    return f"{words[:1].upper()}{words[1:]}."


def span(
    given: Mapping[str, str], zone: ZoneInfo, start: str
) -> tuple[datetime | None, datetime | None, dict[str, str]]:
    """The instants that were typed as ``from`` and ``to``, and what is wrong; ``start`` names the first in words."""
    found = {name: moment(given[name], zone) if given[name] else None for name in ("from", "to")}
    wrong = {name: f"{DATE[:1].upper()}{DATE[1:]}." for name, value in found.items() if given[name] and value is None}
    if found["from"] is not None and found["to"] is not None and found["from"] > found["to"]:
        wrong["to"] = f"Choose a time after {start}."
    return found["from"], found["to"], wrong


def moment(text: str, zone: ZoneInfo) -> datetime | None:
    """An instant as a browser's date field or a link writes it; the viewer's zone where it has none."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _sortable_by_run_time(query: Mapping[str, Any]) -> bool:
    keyed = query.keys() & _KEYS
    return query.get("status") in _TIMED and not keyed
