"""Instants and durations as people read them, in the viewer's zone. The machine-readable form is in the element."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from markupsafe import Markup

from sloppyjobs.admin.sentences import At, Part, Relative, Sentence, Write

NOTHING = "–"  # noqa: RUF001

_NO_MARK = Markup("")
_DAY_AND_A_BIT = 25 * 3600.0


class Times:
    """Formats instants for one viewer at one moment."""

    def __init__(self, zone: ZoneInfo, now: datetime | None = None) -> None:
        self.zone = zone
        self.now = now or datetime.now(UTC)

    def ago(self, moment: datetime | None) -> Markup | str:
        """Relative: ``6 min ago``, ``in 12 s``; kept fresh by the script."""
        if moment is None:
            return NOTHING
        return self._element(moment, relative((self.now - moment).total_seconds()), Markup(' data-rel=""'))

    def age(self, seconds: float | None) -> Markup | str:
        """How long something has lasted already: ``42 min``; kept fresh by the script."""
        if seconds is None:
            return NOTHING
        since = self.now - timedelta(seconds=seconds)
        return self._element(since, rough(seconds), Markup(' data-age=""'))

    def clock(self, moment: datetime | None) -> Markup | str:
        """The time of day, with the day where it is not today: ``13:56:26``, ``Fri 27 Mar, 13:56:26``."""
        return NOTHING if moment is None else self._element(moment, self._dated(moment, "%H:%M:%S"))

    def taken(self, moment: datetime) -> Markup:
        """When what is shown was read; not a reason to redraw a page."""
        local = moment.astimezone(self.zone)
        return self._element(moment, f"{local:%H:%M:%S} {_zone(local)}", Markup(' data-age="" data-fixed=""'))

    def short(self, moment: datetime, span: float = 0.0) -> str:
        """Hours and minutes, with the day where it is not today: ``13:56``, ``Fri 27 Mar, 13:56``.

        For an axis that spans so many seconds: the day alone where hours would repeat, else ``Fri 13:56``.
        """
        if not span:
            return self._dated(moment, "%H:%M")
        local = moment.astimezone(self.zone)
        if span > _DAY_AND_A_BIT:
            return f"{local.day} {local:%b}"
        return f"{local:%H:%M}" if self._is_today(local) else f"{local:%a %H:%M}"

    def _is_today(self, local: datetime) -> bool:
        return local.date() == self.now.astimezone(self.zone).date()

    def _dated(self, moment: datetime, form: str) -> str:
        local = moment.astimezone(self.zone)
        if self._is_today(local):
            return local.strftime(form)
        return f"{local:%a} {local.day} {local:%b}{self._year(local)}, {local.strftime(form)}"

    def _year(self, local: datetime) -> str:
        return "" if local.year == self.now.astimezone(local.tzinfo).year else f" {local.year}"

    def day(self, moment: datetime, zone: ZoneInfo | None = None) -> str:
        """For a table of fires: day, with the year where it is not this one, and time with the zone's abbreviation."""
        local = moment.astimezone(zone or self.zone)
        return f"{local:%a} {local.day} {local:%b}{self._year(local)}, {local:%H:%M} {_zone(local)}"

    def full(self, moment: datetime) -> str:
        """Everything, for a title."""
        local = moment.astimezone(self.zone)
        return f"{local:%a} {local.day} {local:%b %Y, %H:%M:%S} {_zone(local)}"

    def _element(self, moment: datetime, text: str, mark: Markup = _NO_MARK) -> Markup:
        stamp = moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return Markup('<time class="nw" datetime="{}" title="{}"{}>{}</time>').format(
            stamp, self.full(moment), mark, text
        )


def rough(seconds: float) -> str:
    """A duration in its largest unit: ``9 s``, ``42 min``, ``5 h``, ``3 d``."""
    seconds = max(0.0, seconds)
    if seconds < 60:
        return f"{int(seconds)} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min"
    if seconds < 48 * 3600:
        return f"{int(seconds // 3600)} h"
    return f"{int(seconds // 86400):,} d"


def relative(seconds_ago: float) -> str:
    """``6 min ago`` and ``just now`` for the past, ``in 12 s`` for the future."""
    if abs(seconds_ago) < 1:
        return "just now" if seconds_ago >= 0 else "now"
    return f"{rough(seconds_ago)} ago" if seconds_ago > 0 else f"in {rough(-seconds_ago)}"


def duration(seconds: float | None) -> str:
    """A measured length: ``820 ms``, ``29.1 s``, ``4 min 59 s``."""
    if seconds is None:
        return NOTHING
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} d {hours % 24} h"


def sentence_writer(times: Times) -> Write:
    """Writes sentences for one viewer at one moment. Text is escaped."""

    def write(sentence: Sentence, _now: datetime) -> str:
        return Markup("").join(_shown(part, times) for part in sentence)

    return write


def _shown(part: Part, times: Times) -> Markup | str:
    if isinstance(part, str):
        return part
    if isinstance(part, At):
        return Markup("{} {}").format(times.clock(part.moment), _zone(part.moment.astimezone(times.zone)))
    if isinstance(part, Relative):
        return times.ago(part.moment)
    return times.age((times.now - part.moment).total_seconds())


def _zone(local: datetime) -> str:
    """The zone's abbreviation; zones without one are named by their offset."""
    name = f"{local:%Z}"
    return name if name.isalpha() else f"UTC{name}"
