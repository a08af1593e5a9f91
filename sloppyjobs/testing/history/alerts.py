"""Alerts: one for each rule, cause and window, and each of them is delivered (I13)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise

from sloppyjobs.domain.alerts import MUTED, TEST
from sloppyjobs.storage.ports.alerts import AlertRecord
from sloppyjobs.testing.history.evidence import Evidence
from sloppyjobs.testing.history.violations import Finding


def alerts_are_told_once(evidence: Evidence) -> Iterator[Finding]:
    """I13: one alert per rule, cause and window, with a job that delivers it; after faults heal it is delivered."""
    of_cause: dict[tuple[str, str], list[AlertRecord]] = defaultdict(list)
    for alert in evidence.tables.alerts:
        if alert.cause != TEST:
            of_cause[alert.rule, alert.cause].append(alert)
        yield from _delivered(evidence, alert)
    for (rule, cause), alerts in of_cause.items():
        alerts.sort(key=lambda one: one.window_start)
        for one, other in pairwise(alerts):
            # Of what was muted nobody was told: the next one may come as soon as the rule tells again.
            in_force = one.state != MUTED or other.state == MUTED
            if in_force and other.window_start - one.window_start < timedelta(seconds=other.window_seconds):
                yield Finding(rule, f"{cause} has two alerts in one window: {one.window_start}, {other.window_start}")


def _delivered(evidence: Evidence, alert: AlertRecord) -> Iterator[Finding]:
    job = evidence.tables.jobs.get(alert.job_id)
    if alert.state == MUTED:
        if job is not None:
            yield Finding(alert.rule, f"the alert of {alert.cause} was muted, and has a job that delivers it")
    elif job is None:
        # A purge may have removed it, when it was settled.
        if alert.state == "pending" and not evidence.tables.has(alert.job_id):
            yield Finding(alert.rule, f"the alert of {alert.cause} has no job that delivers it")
    elif evidence.now is not None and job.status not in ("succeeded", "deleted"):
        yield Finding(alert.rule, f"the alert of {alert.cause} was not delivered: its job {job.id} is {job.status}")
