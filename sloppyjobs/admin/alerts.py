"""Alerts for operators: the rules, what was told to whom, and a test."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from sloppyjobs import errors
from sloppyjobs.admin.filters import command_given, moment
from sloppyjobs.admin.presenter import Presenter
from sloppyjobs.admin.queues import PAST
from sloppyjobs.alerting.deliveries import trial
from sloppyjobs.alerting.rules import AlertRules
from sloppyjobs.domain import options
from sloppyjobs.domain.alerts import LATE_SECONDS, MUTED, Alert, Watch
from sloppyjobs.domain.states import Status
from sloppyjobs.encryption import Sealing
from sloppyjobs.paging import Paging
from sloppyjobs.paging import page_size as checked_size
from sloppyjobs.storage.ports import Store
from sloppyjobs.storage.ports.alerts import AlertRow, RuleRecord
from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.views import Page
from sloppyjobs.views.alerts import AlertRuleView, AlertView

SEEN_LATELY = timedelta(minutes=3)
"""A rule that no worker has declared for so long is not declared any more."""
MOST_RULES = 500
_STATUSES = {
    Status.SUCCEEDED: "told",
    Status.RETRYING: "retrying",
    Status.DEAD: "failed",
    Status.CANCELLED: "failed",
    Status.DELETED: "failed",
}


class AlertAdmin:
    """The part of ``jobs.admin`` that concerns alerts."""

    _storage: Store
    _sealing: Sealing
    _alert_rules: AlertRules

    def _presenter(self) -> Presenter:
        raise NotImplementedError

    def list_alerts(
        self, rule: str | None = None, *, cursor: str | None = None, page_size: int = 50
    ) -> Page[AlertView]:
        """What was told to whom and when, latest first; of one rule, or of all."""
        wanted = None if rule is None else options.text("rule", rule)
        size = checked_size(page_size)
        paging = Paging("alerts", (datetime, str), wanted)
        position = paging.position(cursor)
        rows = self._storage.alerts.page(wanted, position.after, backward=position.backward, limit=size + 1)
        presenter = self._presenter()
        items = [((row.alert.created_at, row.alert.job_id), _view(row, presenter)) for row in rows[:size]]
        return paging.page(items, position, items[-1][0] if len(rows) > size else None)

    def list_alert_rules(self) -> tuple[AlertRuleView, ...]:
        """Every rule that was ever declared, by name; at most 500."""
        now, presenter = self._storage.clock.now(), self._presenter()
        return tuple(self._rule_view(rule, now, presenter) for rule in self._storage.alerts.rules(MOST_RULES))

    def test_alert(self, rule: str, *, actor: str | None = None, reason: str | None = None) -> AlertView:
        """Send a test to whom a rule tells, by the way of real ones; ``UnknownAlert`` for a rule that never was."""
        name = options.text("rule", rule)
        found = next((one for one in self._storage.alerts.rules(MOST_RULES) if one.name == name), None)
        if found is None:
            raise _unknown(name)
        command = command_given("test_alert", actor, reason)
        record, job = trial(found, self._storage.clock.now(), command.actor)
        [sealed] = self._sealing.seal_new([job])
        self._storage.alerts.raise_alert(record, sealed, command)
        written = self._storage.alerts.page(name, None, backward=False, limit=50)
        return next(_view(row, self._presenter()) for row in written if row.alert.job_id == record.job_id)

    def mute_alert(
        self,
        rule: str,
        until: datetime | str | None = None,
        *,
        actor: str | None = None,
        reason: str | None = None,
    ) -> AlertRuleView:
        """Let a rule tell nobody, until an instant or for good; what it finds is written down, as ``muted``.

        When that ends, what is still so is told. Alerts that were raised before are still delivered, and so is a test.
        ``UnknownAlert`` for a rule that never was.
        """
        name = options.text("rule", rule)
        end = None if until is None else moment("until", until)
        if end is not None and end <= self._storage.clock.now():
            raise options.refuse("until", until, PAST)
        return self._mute(name, True, end, command_given("mute_alert", actor, reason))

    def unmute_alert(self, rule: str, *, actor: str | None = None, reason: str | None = None) -> AlertRuleView:
        """Let a rule tell again; ``UnknownAlert`` for a rule that never was."""
        return self._mute(options.text("rule", rule), False, None, command_given("unmute_alert", actor, reason))

    def _mute(self, name: str, muted: bool, until: datetime | None, command: Command) -> AlertRuleView:
        if not self._storage.alerts.mute(name, muted, until, command):
            raise _unknown(name)
        return next(rule for rule in self.list_alert_rules() if rule.name == name)

    def _rule_view(self, rule: RuleRecord, now: datetime, presenter: Presenter) -> AlertRuleView:
        watch = _watch(rule.watch)
        here = self._alert_rules.get(rule.name) is not None
        last, muted = rule.last_alert_at, rule.is_muted(now)
        return AlertRuleView(
            name=rule.name,
            on=watch.on,
            queue=watch.queue,
            job_name=watch.name,
            after=watch.after,
            window=watch.window,
            longer_than=watch.longer_than,
            target=rule.target,
            declared=here or (rule.seen_at is not None and now - rule.seen_at <= SEEN_LATELY),
            seen_at=rule.seen_at,
            last_alert_at=last,
            open=last is not None and now - last <= timedelta(seconds=watch.window),
            when=in_words(watch),
            muted=muted,
            muted_until=rule.muted_until if muted else None,
            muted_by=presenter.text(None, rule.muted_by) if muted else None,
            mute_reason=presenter.text(None, rule.mute_reason) if muted else None,
        )


def _unknown(name: str) -> errors.UnknownAlert:
    return errors.UnknownAlert(f"no alert is called {name!r}; workers write the rules of their code when they start")


def in_words(watch: Watch) -> str:
    """What a rule watches: ``10 dead of one cause in orders``."""
    where = "" if watch.queue is None else f" in {watch.queue}"
    what = "" if watch.name is None else f" of {watch.name}"
    seconds = watch.longer_than or LATE_SECONDS
    span = f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"
    match watch.on:
        case "dead":
            return f"{watch.after} dead of one cause{what}{where}" if watch.after > 1 else f"A dead job{what}{where}"
        case "late":
            return f"A job{where or ' in any queue'} waits longer than {span}"
        case "stale-worker":
            return "A worker stops responding"
    which = "A schedule" if watch.name is None else watch.name
    runs = "its last run is dead" if watch.after == 1 else f"its last {watch.after} runs are dead"
    return f"{which}: {runs}, or it is {span} late"


def _watch(text: str) -> Watch:
    try:
        return msgspec.json.decode(text, type=Watch)
    except msgspec.MsgspecError:
        # A newer worker may have written it.
        return Watch(on="dead")


def _view(row: AlertRow, presenter: Presenter) -> AlertView:
    alert, told = row.alert, _told(row)
    status = alert.state
    if status != "told":
        known = _STATUSES.get(row.status, "pending") if row.status is not None else "failed"
        status = alert.state if row.status is None and alert.state != "pending" else known
    if status == "pending" and (row.tries or 0) > (row.status is Status.PROCESSING):
        # It has failed before, and is due again or under way.
        status = "retrying"
    done = status == "told"
    ended = alert.ended_at or row.finished_at
    error = None if done else row.error_message or alert.error
    return AlertView(
        rule=alert.rule,
        on=told.on,
        cause=alert.cause,
        text=presenter.text(told.name, told.text) or "",
        created_at=alert.created_at,
        window_start=alert.window_start,
        window=alert.window_seconds,
        target=alert.target,
        status=status,
        tries=alert.tries or row.tries or 0,
        told_at=ended if done else None,
        error=presenter.text(told.name, error),
        job_id=None if status == MUTED else alert.job_id,
        count=told.count,
        since=told.since,
        queue=told.queue,
        name=told.name,
        worker=told.worker,
        example_id=told.example_id,
        test=told.test,
    )


def _told(row: AlertRow) -> Alert:
    try:
        return msgspec.json.decode(row.alert.told, type=Alert)
    except msgspec.MsgspecError:
        alert = row.alert
        return Alert(
            rule=alert.rule,
            on="dead",
            cause=alert.cause,
            text="This alert's row is damaged.",
            window_start=alert.window_start,
            window=alert.window_seconds,
        )
