"""The rules for alerts of one ``Jobs``, and the job that delivers what they find."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.domain.alerts import Alert, Watch, checked_url, shown_url
from sloppyjobs.domain.retry import Retry
from sloppyjobs.enqueue.definitions import Cancel
from sloppyjobs.storage.ports.alerts import RuleRecord

QUEUE = "sloppyjobs.alerts"
"""The queue of the deliveries; every worker of an application with rules takes from it."""
JOB = "sloppyjobs.alert"
"""The job that delivers; with the application's name, where it has one."""
RETRY = Retry(max_attempts=10, backoff="exponential", initial=5, maximum=900)
TIMEOUT = 60.0

Deliver = Callable[[Alert], Any] | str


class Rule(NamedTuple):
    """A rule that code declares: what it watches, and whom it tells."""

    name: str
    watch: Watch
    deliver: Deliver
    secret: str | None = None

    @property
    def target(self) -> str:
        """Whom it tells, without what may be secret."""
        if isinstance(self.deliver, str):
            return shown_url(self.deliver)
        name = str(getattr(self.deliver, "__qualname__", type(self.deliver).__qualname__))
        return name.rpartition("<locals>.")[2][:255]

    def tell(self, alert: Alert) -> None:
        """Deliver an alert; raises where that failed."""
        if isinstance(self.deliver, str):
            from sloppyjobs.alerting import webhook  # noqa: PLC0415 - producers and most workers never need it

            webhook.post(self.deliver, msgspec.json.encode(alert), self.secret)
            return
        told = self.deliver(alert)
        if inspect.isawaitable(told):
            import asyncio  # noqa: PLC0415

            asyncio.run(_awaited(told))


class AlertRules:
    """Rules by name. Making it opens no connection."""

    def __init__(self, application: str | None = None) -> None:
        self.job_name = JOB if application is None else f"{JOB}.{application}"[: options.NAME_LENGTH]
        self._by_name: dict[str, Rule] = {}

    def add(self, rule: Rule) -> None:
        """Take a rule in; ``DuplicateJob`` for a name that is declared already."""
        if rule.name in self._by_name:
            raise errors.DuplicateJob(f"the alert {rule.name!r} is declared already; each needs a name of its own")
        self._by_name[rule.name] = rule

    def get(self, name: str) -> Rule | None:
        """The rule of that name, if code here declares it."""
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[Rule]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def records(self) -> list[RuleRecord]:
        """The rules as they are stored."""
        return [
            RuleRecord(rule.name, msgspec.json.encode(rule.watch).decode(), rule.target, self.job_name, QUEUE)
            for rule in self
        ]

    def deliver(self, _ctx: Any, payload: Any) -> Any:
        """The handler of the deliveries."""
        alert = msgspec.convert(payload, Alert)
        rule = self.get(alert.rule)
        if rule is None:
            return Cancel(f"the alert {alert.rule!r} is no longer declared in code")
        rule.tell(alert)
        return {"told": rule.target}


def made_rule(name: object, watch: Watch, deliver: object, secret: object, *, allow_http: object) -> Rule:
    """The rule, or ``InvalidOption`` naming what cannot work."""
    text = options.text("rule", name)
    if secret is not None and (not isinstance(secret, str) or not secret):
        raise errors.InvalidOption("secret must be text that is not empty", field="secret")
    if isinstance(deliver, str):
        plain = options.one_of("allow_http", allow_http, (True, False))
        return Rule(text, watch, checked_url(deliver, allow_http=plain), secret)
    if not callable(deliver):
        raise options.refuse("deliver", type(deliver).__name__, "must be a function of the alert, or an https:// URL")
    return Rule(text, watch, deliver, secret)


async def _awaited(told: Any) -> Any:
    return await told
