"""The fields "how long" and "or until" of a form: of a queue's pause, of a rule's mute."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from flask import request

from sloppyjobs import errors
from sloppyjobs.domain.options import instant
from webui import filters, page_context
from webui.command_response import REASON_LENGTH
from webui.ui import Ui


class UntilForm(NamedTuple):
    """A form that was refused: what was typed, which field is wrong, and why."""

    target: str
    until: str
    until_at: str
    reason: str
    field: str
    error: str


class Refused(Exception):
    """The time makes no sense."""

    def __init__(self, field: str, error: str) -> None:
        self.field = field
        self.error = error

    def form(self, target: str) -> UntilForm:
        """The form as it was sent."""
        typed = {name: request.form.get(name, "")[:REASON_LENGTH] for name in ("until", "until_at", "reason")}
        return UntilForm(target=target, **typed, field=self.field, error=self.error)


def chosen(ui: Ui, spans: Mapping[str, str]) -> datetime | None:
    """The end that was chosen, by minutes or as a time; None for none. ``Refused`` where it makes no sense.

    By the clock of the jobs: that of this host may be wrong.
    """
    minutes, moment = request.form.get("until", ""), request.form.get("until_at", "")
    if moment:
        found = filters.moment(moment, page_context.preferences_of(ui).tz)
        if found is None or found <= ui.admin.now():
            raise Refused("until_at", "Choose a time in the future.")
        try:
            return instant("until", found)
        except errors.InvalidOption:
            never = f"That is too far away. For no end, leave this empty and choose “{spans['']}”."
            raise Refused("until_at", never) from None
    if minutes not in spans:
        raise Refused("until", "Choose how long from the list.")
    return ui.admin.now() + timedelta(minutes=int(minutes)) if minutes else None
