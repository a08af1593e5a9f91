"""Sentences of the library as markup: instants in the viewer's zone, relative ones kept fresh by the script."""

from __future__ import annotations

from datetime import datetime

from markupsafe import Markup

from sloppyjobs.admin.sentences import At, Part, Relative, Sentence, Write
from webui.times import Times


def writer(times: Times) -> Write:
    """Writes sentences for one viewer at one moment. Text is escaped."""

    def write(sentence: Sentence, _now: datetime) -> str:
        return Markup("").join(_shown(part, times) for part in sentence)

    return write


def _shown(part: Part, times: Times) -> Markup | str:
    if isinstance(part, str):
        return part
    if isinstance(part, At):
        return Markup("{} {}").format(times.clock(part.moment), _zone(part.moment, times))
    if isinstance(part, Relative):
        return times.ago(part.moment)
    return times.age((times.now - part.moment).total_seconds())


def _zone(moment: datetime, times: Times) -> str:
    """The zone's abbreviation; zones without one are named by their offset."""
    name = f"{moment.astimezone(times.zone):%Z}"
    return name if name.isalpha() else f"UTC{name}"
