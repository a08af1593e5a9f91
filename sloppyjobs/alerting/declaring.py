"""``jobs.declare_alert``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

from sloppyjobs.alerting.rules import QUEUE, RETRY, TIMEOUT, AlertRules, Deliver, made_rule
from sloppyjobs.domain import alerts, options
from sloppyjobs.enqueue.definitions import Definitions

Kind = Literal["dead", "late", "stale-worker", "failing-schedule"]


def new_rules(application: str | None) -> AlertRules:
    """No rules yet."""
    return AlertRules(application)


class AlertDeclaring:
    """What ``Jobs`` offers to be told of trouble."""

    alerts: AlertRules
    definitions: Definitions
    define: Callable[..., Any]

    @options.known_only("declare_alert")
    def declare_alert(
        self,
        rule: str,
        *,
        on: Kind,
        deliver: Deliver,
        queue: str | None = None,
        name: str | None = None,
        after: int = 1,
        window: float | timedelta = 600,
        longer_than: float | timedelta | None = None,
        secret: str | None = None,
        allow_http: bool = False,
    ) -> None:
        """Declare in code of what trouble somebody is to be told; workers look every few seconds.

        ``on`` is "dead" (a job died; with ``after``, the so-many-th of one cause in a window), "late" (the oldest due
        job of a queue waits ``longer_than`` seconds), "stale-worker" (a worker was not heard of) or "failing-schedule"
        (its last ``after`` runs are dead, or it has not fired for ``longer_than`` seconds). ``queue`` and ``name``
        narrow it. Each cause is told once per ``window``.

        ``deliver`` is a function of the alert, or the URL of a webhook that gets it as JSON, signed with ``secret`` or
        with the environment's SLOPPYJOBS_ALERT_SECRET; https, or this machine, unless ``allow_http``. A job of its own
        delivers it, with retries. Raises ``InvalidOption`` for what cannot work, ``DuplicateJob`` for a name that is
        declared already.
        """
        watch = alerts.watch(on, queue=queue, name=name, after=after, window=window, longer_than=longer_than)
        self.alerts.add(made_rule(rule, watch, deliver, secret, allow_http=allow_http))
        job = self.alerts.job_name
        if self.definitions.get(job) is None:
            self.define(job, self.alerts.deliver, queue=QUEUE, retry=RETRY, timeout=TIMEOUT, log="failures")
