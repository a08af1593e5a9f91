"""Alerts: what a rule watches, and what is told when it is met. Pure: no I/O, no clock."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from sloppyjobs.domain import options
from sloppyjobs.domain.causes import cause_id

KINDS = ("dead", "late", "stale-worker", "failing-schedule")
"""What a rule may watch."""
LATE_SECONDS = 300.0
"""After how long a queue or a schedule is late, unless a rule says otherwise."""
MOST_SECONDS = 31 * 86_400.0
TEXT_LIMIT = 500
MUTED = "muted"
"""The state of an alert that nobody was told of, because its rule is muted."""
TEST = "test"
"""The cause of an alert that somebody sent to try a rule."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule watches, as it is stored with the rule."""

    on: str
    queue: str | None = None
    name: str | None = None
    """Of dead jobs their name, of schedules the schedule's."""
    after: int = 1
    window: float = 600.0
    longer_than: float | None = None


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """What is told: to a function, or as the JSON of a webhook. Bounded, and redacted."""

    rule: str
    on: str
    cause: str
    """The same for everything that is one trouble."""
    text: str
    """In a sentence."""
    window_start: datetime
    """When it was raised. There is no other one of this cause for ``window`` seconds."""
    window: float
    count: int = 0
    """Of dead jobs how many of the cause died in the window; of schedules how many runs in a row failed."""
    since: datetime | None = None
    queue: str | None = None
    name: str | None = None
    """The job's name, or the schedule's."""
    worker: str | None = None
    example_id: str | None = None
    """One of the dead jobs."""
    test: bool = False


class Death(NamedTuple):
    """A job that is dead, as far as alerts look at it."""

    id: str
    queue: str
    name: str
    error_type: str | None
    error_frame: str | None
    error_message: str | None
    died_at: datetime


class Situation(NamedTuple):
    """That a rule is met: by what, and what there is to say."""

    cause: str
    told: dict[str, Any]


def watch(on: object, *, queue: object, name: object, after: object, window: object, longer_than: object) -> Watch:
    """What was asked for, or ``InvalidOption`` naming what cannot work."""
    kind = options.one_of("on", on, KINDS)
    if queue is not None and kind not in ("dead", "late"):
        raise options.refuse("queue", queue, f"means nothing for on={kind!r}; it narrows 'dead' and 'late'")
    if name is not None and kind not in ("dead", "failing-schedule"):
        raise options.refuse("name", name, f"means nothing for on={kind!r}; it narrows 'dead' and 'failing-schedule'")
    if longer_than is not None and kind not in ("late", "failing-schedule"):
        raise options.refuse("longer_than", longer_than, f"means nothing for on={kind!r}; it is for 'late'")
    number = options.whole("after", after, least=1, most=10_000)
    if number > 1 and kind not in ("dead", "failing-schedule"):
        raise options.refuse("after", after, f"means nothing for on={kind!r}; it counts for 'dead'")
    seconds = options.seconds("window", window, zero=False)
    if not 1 <= seconds <= MOST_SECONDS:
        raise options.refuse("window", window, "must be from one second to 31 days")
    return Watch(
        on=kind,
        queue=None if queue is None else options.queue("queue", queue),
        name=None if name is None else options.text("name", name),
        after=number,
        window=seconds,
        longer_than=None if longer_than is None else options.seconds("longer_than", longer_than, zero=False),
    )


def checked_url(url: str, *, allow_http: bool) -> str:
    """The address of a webhook: https, or http to this machine, unless ``allow_http``; without a password in it."""
    try:
        parts = urlsplit(options.text("deliver", url, longest=2_000))
        host, _port = parts.hostname, parts.port
    except ValueError:
        raise options.refuse("deliver", "…", "must be a function or the URL of a webhook") from None
    if parts.scheme not in ("https", "http") or not host:
        raise options.refuse("deliver", shown_url(url), "must be a function, or an https:// URL")
    if parts.username or parts.password:
        raise options.refuse("deliver", shown_url(url), "must have no password in it; requests are signed")
    if parts.scheme == "http" and host not in _LOOPBACK and not allow_http:
        raise options.refuse("deliver", shown_url(url), "must be https, unless allow_http=True")
    return url


def shown_url(url: str) -> str:
    """A webhook's address without what may be secret: its path often is."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}" + (f":{parts.port}" if parts.port else "")


def cause_of(kind: str, what: str) -> str:
    """A short digest that names what is in trouble."""
    return hashlib.sha256(f"{kind}|{what}".encode()).hexdigest()[:20]


def by_cause(deaths: Iterable[Death]) -> dict[str, list[Death]]:
    """Deaths of each cause, in the order in which they died."""
    groups: dict[str, list[Death]] = {}
    for one in sorted(deaths, key=lambda one: (one.died_at, one.id)):
        groups.setdefault(cause_id(one.name, one.error_type, one.error_frame), []).append(one)
    return groups


def deadly(rule: Watch, deaths: Mapping[str, Sequence[Death]], last: Mapping[str, datetime]) -> Iterator[Situation]:
    """The causes of which as many jobs died within one window as the rule asks for, after the window of the last alert.

    ``last`` says when that window began.
    """
    window = timedelta(seconds=rule.window)
    for cause, died in sorted(deaths.items()):
        untold = [one for one in died if cause not in last or one.died_at >= last[cause] + window]
        enough = [
            ending
            for starting, ending in zip(untold, untold[rule.after - 1 :], strict=False)
            if ending.died_at - starting.died_at < window
        ]
        if enough:
            last_of_them = enough[-1]
            counted = [one for one in untold if last_of_them.died_at - window < one.died_at <= last_of_them.died_at]
            yield Situation(cause, _told(counted, last_of_them))


def _told(died: Sequence[Death], last: Death) -> dict[str, Any]:
    number = f"{len(died)} dead" if len(died) > 1 else "1 dead job"
    error = (last.error_type or "no error").rpartition(".")[2]
    return {
        "text": f"{error}: {number} of {last.name} in {last.queue}: {last.error_message or ''}".rstrip(": "),
        "count": len(died),
        "since": died[0].died_at,
        "queue": last.queue,
        "name": last.name,
        "example_id": last.id,
    }
