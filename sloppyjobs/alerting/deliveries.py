"""The row of an alert, and the job that delivers it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sloppyjobs.alerting.rules import RETRY, TIMEOUT
from sloppyjobs.domain.alerts import TEST, Alert, Watch
from sloppyjobs.domain.model import NewJob, Terms
from sloppyjobs.domain.payload import clean_text
from sloppyjobs.ids import occurrence
from sloppyjobs.storage.ports.alerts import AlertRecord, RuleRecord


def delivery(alert: Alert, target: str, job_name: str, queue: str) -> tuple[AlertRecord, NewJob]:
    """Both are written in one transaction. The job's id follows from rule, cause and window."""
    job_id = occurrence(f"alert|{alert.rule}|{alert.cause}", alert.window_start)
    text = msgspec.json.encode(alert).decode()
    attempts, policy = RETRY.max_attempts, RETRY.to_json()
    terms = Terms(name=job_name, queue=queue, max_attempts=attempts, retry_policy=policy, timeout=TIMEOUT)
    record = AlertRecord(
        rule=alert.rule,
        cause=alert.cause,
        window_start=alert.window_start,
        job_id=job_id,
        created_at=alert.window_start,
        window_seconds=alert.window,
        target=target,
        told=text,
        state="pending",
    )
    return record, NewJob(job_id, text, terms)


def trial(rule: RuleRecord, now: datetime, actor: str | None) -> tuple[AlertRecord, NewJob]:
    """An alert that says nothing but that the rule can tell somebody."""
    watch = msgspec.json.decode(rule.watch, type=Watch)
    by = "" if actor is None else f", sent by {clean_text(actor, 100)}"
    text = f"This is a test of {rule.name}{by}."
    alert = Alert(rule=rule.name, on=watch.on, cause=TEST, text=text, window_start=now, window=watch.window, test=True)
    return delivery(alert, rule.target, rule.job_name, rule.queue)
