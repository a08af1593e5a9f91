"""The filters of the job list: from a query string to the admin's options, and back into links."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from sloppyjobs.states import Status

RANGES = {"1h": "Last hour", "24h": "Last 24 hours", "7d": "Last 7 days", "30d": "Last 30 days"}
_SPANS = {
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
EXACT = ("queue", "name", "worker", "schedule", "correlation_id", "idempotency_key", "error_code")
LABELS = {
    "queue": "Queue",
    "name": "Name",
    "worker": "Worker",
    "schedule": "Schedule",
    "correlation_id": "Correlation id",
    "idempotency_key": "Idempotency key",
    "error_code": "Error code",
    "error_type": "Error",
    "error_frame": "Raised in",
    "range": "Created",
    "created_from": "Created from",
    "created_to": "Created before",
}
ORDERS = ("-created_at", "created_at")
TIMED_ORDERS = ("run_at", "-run_at")
_TIMED = frozenset({Status.SCHEDULED.value, Status.RETRYING.value})


class JobFilters(NamedTuple):
    """What a list of jobs is narrowed to. ``values`` are as they were typed, for links and forms."""

    values: Mapping[str, str]
    query: Mapping[str, Any]
    """For ``admin.list_jobs`` and ``admin.bulk``."""
    order: str

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
        kept: dict[str, str | None] = {**self.values, "order": self.order if self.order != ORDERS[0] else None}
        if "range" in changed:
            kept.pop("since", None)
        return {**kept, **changed}


def parse(given: Mapping[str, str], zone: ZoneInfo, now: datetime | None = None) -> JobFilters:
    """The filters in a query string or a form; what makes no sense is left out, and the admin checks the rest."""
    values = {name: given[name].strip() for name in (*EXACT, "created_from", "created_to") if given.get(name)}
    values = {name: value for name, value in values.items() if value}
    query: dict[str, Any] = {name: values[name] for name in EXACT if name in values}
    status = given.get("status", "")
    if status in {one.value for one in Status}:
        values["status"] = query["status"] = status
    for name in ("created_from", "created_to"):
        if name in values:
            query[name] = moment(values[name], zone)
    span = given.get("range", "")
    if span in RANGES and "created_from" not in values:
        values["range"] = span
        # The start is pinned in the links, because a cursor belongs to one list with fixed filters.
        since = moment(given["since"], zone) if given.get("since") else None
        query["created_from"] = since or (now or datetime.now(UTC)) - _SPANS[span]
        values["since"] = query["created_from"].isoformat()
    order = given.get("order", "")
    accepted = ORDERS + (TIMED_ORDERS if _sortable_by_run_time(query) else ())
    return JobFilters(values, _only_given(query), order if order in accepted else ORDERS[0])


def moment(text: str, zone: ZoneInfo) -> datetime | None:
    """An instant as a browser's date field or a link writes it; the viewer's zone where it has none."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _sortable_by_run_time(query: Mapping[str, Any]) -> bool:
    keyed = any(name in query for name in ("schedule", "correlation_id", "idempotency_key"))
    return query.get("status") in _TIMED and not keyed


def _only_given(query: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in query.items() if value is not None}
