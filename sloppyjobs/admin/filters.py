"""The filters of a list of jobs, checked before anything is asked of the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from sloppyjobs.domain import options
from sloppyjobs.domain.payload import clean_text
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.ports.operators import AuditFilter, Command
from sloppyjobs.storage.ports.reads import TIMED, JobQuery

SHOWN = tuple(status for status in Status if status is not Status.DELETED)
"""What a list without a status shows."""
MOST_IDS = 10_000
ACTOR_LENGTH = 255
REASON_LENGTH = 2_000

_ORDERS = ("created_at", "-created_at")
_TIMED_ORDERS = ("run_at", "-run_at")


def job_query(given: Mapping[str, Any], scope: Iterable[str] | None = None) -> JobQuery:
    """The query of these options; None means not given, except for a cause, which may be none."""
    unknown = set(given) - CHECKS.keys()
    if unknown:
        raise options.refuse(
            "filter", ", ".join(sorted(map(str, unknown))), f"is unknown; known are {', '.join(CHECKS)}"
        )
    checked = {
        name: CHECKS[name](name, value)
        for name, value in given.items()
        if value is not None or name in ("error_type", "error_frame")
    }
    statuses = checked.pop("status", SHOWN)
    for start, end in (("created_from", "created_to"), ("run_from", "run_to")):
        if start in checked and end in checked and checked[start] > checked[end]:
            raise options.refuse(start, given[start], f"is after {end}={given[end]!r}")
    return JobQuery(statuses=statuses, scope=scope_of(scope), **checked)


def audit_filter(target: object, actor: object, action: object, start: object, end: object) -> AuditFilter:
    """What a page of the audit trail is narrowed to; None means not given."""
    created_from = None if start is None else moment("created_from", start)
    created_to = None if end is None else moment("created_to", end)
    if created_from is not None and created_to is not None and created_from > created_to:
        raise options.refuse("created_from", start, f"is after created_to={end!r}")
    return AuditFilter(
        target=options.key("target", target),
        actor=options.key("actor", actor),
        action=options.key("action", action),
        created_from=created_from,
        created_to=created_to,
    )


def order_of(order: object, wanted: JobQuery) -> str:
    """An order that an index can follow for this filter."""
    accepted: tuple[str, ...] = _ORDERS
    timed = TIMED.issuperset(wanted.statuses)
    keyed = wanted.schedule or wanted.correlation_id or wanted.idempotency_key or wanted.business_key or wanted.tag
    keyed = keyed or wanted.batch or wanted.workflow
    if timed and not keyed:
        accepted += _TIMED_ORDERS
    if isinstance(order, str) and order in accepted:
        return order
    why = "must be one of " + ", ".join(map(repr, accepted))
    if order in _TIMED_ORDERS:
        why += "; run_at orders only lists of scheduled and retrying jobs without a schedule or an exact key"
    raise options.refuse("order", order, why)


def command_given(action: str, actor: object, reason: object) -> Command:
    """Who commands what and why, cleaned and truncated."""
    return Command(action, _line("actor", actor, ACTOR_LENGTH), _line("reason", reason, REASON_LENGTH))


def moment(option: str, value: object) -> datetime:
    """An instant in UTC."""
    given = options.instant(option, value)
    try:
        return given.astimezone(UTC)
    except OverflowError:
        raise options.refuse(option, value, "lies outside the years 1 to 9999") from None


def _line(option: str, value: object, longest: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise options.refuse(option, value, "must be text")
    return clean_text(value.strip(), longest) or None


def _statuses(option: str, value: object) -> tuple[Status, ...]:
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, Iterable):
        raise options.refuse(option, value, "must be a status or a list of them")
    found = tuple(_status(option, one) for one in value)
    if not found:
        raise options.refuse(option, found, "must name at least one status")
    return tuple(status for status in Status if status in found)


def _status(option: str, value: object) -> Status:
    try:
        return Status(value)  # type: ignore[arg-type]
    except ValueError:
        raise options.refuse(
            option, value, "must be one of " + ", ".join(repr(status.value) for status in Status)
        ) from None


def scope_of(scope: Iterable[str] | None) -> tuple[str, ...] | None:
    """The queues that somebody sees, in order; None for all of them."""
    if scope is None:
        return None
    if isinstance(scope, str) or not isinstance(scope, Iterable):
        raise options.refuse("scope", scope, f"must be a list of queues, such as scope=({options.shown(scope)},)")
    return tuple(sorted({options.text("scope", queue) for queue in scope}))


def _key(option: str, value: object) -> str:
    return options.text(option, value, longest=options.KEY_LENGTH)


def _cause(option: str, value: object) -> str | None:
    return None if value is None else _key(option, value)


def _ids(option: str, value: object) -> tuple[str, ...]:
    found = options.names(option, value)
    if len(found) > MOST_IDS:
        raise options.refuse(option, f"{len(found)} ids", f"must be at most {MOST_IDS:,}")
    return tuple(dict.fromkeys(found))


CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "status": _statuses,
    "queue": options.text,
    "name": options.text,
    "tag": options.text,
    "worker": options.text,
    "schedule": options.text,
    "batch": options.text,
    "workflow": options.text,
    "correlation_id": _key,
    "idempotency_key": _key,
    "business_key": _key,
    "error_code": _key,
    "created_from": moment,
    "created_to": moment,
    "run_from": moment,
    "run_to": moment,
    "ids": _ids,
    "error_type": _cause,
    "error_frame": _cause,
}
"""What each filter accepts."""
