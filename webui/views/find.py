"""The find box: a part of an id, a name, a queue, an error, a schedule, a workflow, a page and more; an exact key.

One hit is opened at once; several are shown by kind. Of each kind only what the viewer may open is looked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from flask import redirect, request, url_for
from flask.typing import ResponseReturnValue

from sloppyjobs import errors
from sloppyjobs.admin.search import Part
from sloppyjobs.domain.limit_words import limit_words
from sloppyjobs.views import DeadGroup, JobRow
from webui.rendering import is_htmx, render
from webui.routes import Route
from webui.ui import Ui, visit

SHOWN = 20
"""Hits of one kind that are shown."""
SUGGESTED = 4
"""Hits of one kind that are suggested while somebody types."""
LOOKED_AT = 500
"""Schedules, workers, limits and causes of death that are looked at."""
LATEST = 50
"""Workflows and batches that are looked at: as many as a page of them has. Older ones are found by their id."""
LONGEST = 300
"""Characters that are looked for."""
KEYS = {
    "id": "id",
    "idempotency_key": "idempotency key",
    "business_key": "business key",
    "correlation_id": "correlation id",
    "tag": "tag",
}
PAGES = {
    "overview": "Overview",
    "jobs": "Jobs",
    "dead": "Dead",
    "queues": "Queues",
    "recurring": "Recurring",
    "workflows": "Workflows",
    "batches": "Batches",
    "workers": "Workers",
    "limits": "Limits",
    "locks": "Locks",
    "alerts": "Alerts",
    "archive": "Archive",
    "audit": "Audit",
    "encryption": "Encryption",
    "schedule_new": "New schedule",
}
ICONS = {"encryption": "locks", "schedule_new": "plus"}
"""Of pages that have no icon of their own."""
SHORTEST = 3
"""Letters from which on the beginning of a page's title finds it."""


_KINDS = {
    "queues": "queues",
    "recurring": "schedules",
    "workers": "workers",
    "workflows": f"the latest {LATEST} workflows",
    "batches": f"the latest {LATEST} batches",
    "limits": "limits",
    "alerts": "rules for alerts",
    "archive": "the archive, by ids and exact keys",
}


class Hit(NamedTuple):
    """One thing that was found: where it is, what it is called, and what else is known of it."""

    url: str
    text: str
    note: str = ""
    icon: str = ""
    job: JobRow | None = None


class Group(NamedTuple):
    """The hits of one kind."""

    kind: str
    title: str
    hits: Sequence[Hit]
    more: str = ""
    """Where all of them are, if they are a list of their own."""

    @property
    def number(self) -> str:
        """How many, up to what is shown."""
        return f"{SHOWN}+" if len(self.hits) > SHOWN else str(len(self.hits))


def find(ui: Ui) -> ResponseReturnValue:
    """What was typed: opened where there is one thing like it, listed where there are several."""
    text = request.args.get("q", "").strip()[:LONGEST]
    if not text:
        return redirect(url_for(".jobs"))
    groups = [group for group in _groups(ui, text) if group.hits]
    if is_htmx() and request.args.get("suggest"):
        return render(ui, "suggestions.html", title="Suggestions", text=text, groups=groups, shown=SUGGESTED)
    if len(groups) == 1 and len(groups[0].hits) == 1:
        return redirect(groups[0].hits[0].url)
    return render(ui, "find.html", title=f"Find: {text}", text=text, groups=groups, shown=SHOWN,
                  part=Marked(text), looked=_looked(ui))  # fmt: skip


class Marked:
    """Splits a name where it has what was typed."""

    def __init__(self, text: str) -> None:
        self._text = text.casefold()

    def split(self, name: str) -> tuple[str, str, str]:
        """Before it, itself, and after it; all of the name before where it is not in there."""
        at = name.casefold().find(self._text)
        # Some letters are longer in the other case: then the places do not fit.
        if at < 0 or len(name.casefold()) != len(name):
            return name, "", ""
        return name[:at], name[at : at + len(self._text)], name[at + len(self._text) :]


def _groups(ui: Ui, text: str) -> Iterator[Group]:
    part = Part(text)
    names = ui.admin.find_names(text, scope=visit().scope)
    jobs = _jobs(ui, text)
    yield jobs
    if not jobs.hits and _opens(ui, "archive"):
        yield Group("archived", "Archived jobs", _archived(ui, text))
    if _opens(ui, "dead"):
        yield Group("errors", "Errors of dead jobs", _errors(ui, part))
    yield Group("types", "Job types", [_type(name) for name in names.names[: SHOWN + 1]])
    if _opens(ui, "queues"):
        queues = [Hit(url_for(".queue", name=name), name, icon="queues") for name in names.queues[: SHOWN + 1]]
        yield Group("queues", "Queues", queues)
    if _opens(ui, "recurring"):
        yield Group("schedules", "Schedules", _schedules(ui, part))
    if _opens(ui, "workers"):
        yield Group("workers", "Workers", _workers(ui, part))
    if _opens(ui, "workflows"):
        yield Group("workflows", "Workflows", _workflows(ui, text, part))
    if _opens(ui, "batches"):
        yield Group("batches", "Batches", _batches(ui, text, part))
    if _opens(ui, "limits"):
        yield Group("limits", "Limits", _limits(ui, part))
    if _opens(ui, "alerts"):
        yield Group("alerts", "Alerts", _rules(ui, part))
    yield Group("pages", "Pages", [_page(one) for one in _pages(text) if _opens(ui, one)])


def _opens(ui: Ui, endpoint: str) -> bool:
    return visit().lacks(ui.routes[endpoint], {}) is None


def _jobs(ui: Ui, text: str) -> Group:
    hits: dict[str, Hit] = {}
    more = ""
    for by, jobs in ui.admin.find_jobs(text, scope=visit().scope, limit=SHOWN + 1):
        if by != "id" and len(jobs) > 1:
            more = url_for(".jobs", **{by: text})  # type: ignore[arg-type]
        for job in jobs:
            hits.setdefault(job.id, Hit(url_for(".job", id=job.id), job.name, KEYS[by], job.status.value, job))
    return Group("jobs", "Jobs", list(hits.values())[: SHOWN + 1], more)


def _archived(ui: Ui, text: str) -> list[Hit]:
    """Jobs that left the main tables, by their id, whole or shortened, or by a key."""
    wanted = {"id": text.lower()} if text.lower().startswith("job_") else {"key": text}
    try:
        page = ui.admin.search_archive(**wanted, page_size=SHOWN + 1, scope=visit().scope)
    except errors.InvalidOption:
        return []
    return [Hit(url_for(".archived", id=one.id), one.name, f"{one.id}, {one.status}", "archive") for one in page]


def _type(name: str) -> Hit:
    return Hit(url_for(".job_type", name=name), name, icon="jobs")


def _errors(ui: Ui, part: Part) -> list[Hit]:
    groups = ui.admin.dead_groups(limit=LOOKED_AT, queues=visit().scope)
    found = [one for one in groups if part.of(one.error_type) or part.of(one.error_code) or part.of(one.error_message)]
    return [_error(ui, one) for one in found[: SHOWN + 1]]


def _error(ui: Ui, group: DeadGroup) -> Hit:
    cause = getattr(group, "cause", None)
    url = url_for(".cause", cause=cause) if cause and "cause" in ui.routes else url_for(".dead")
    note = f"{group.count} dead of {group.name}"
    return Hit(url, group.error_type or "no error", f"{note}: {group.error_message or ''}"[:200].rstrip(": "), "dead")


def _schedules(ui: Ui, part: Part) -> list[Hit]:
    found = [one for one in ui.admin.list_recurring(page_size=LOOKED_AT, queues=visit().scope) if part.of(one.name)]
    return [
        Hit(url_for(".schedule", name=one.name), one.name, f"runs {one.job_name}", "recurring")
        for one in found[: SHOWN + 1]
    ]


def _workers(ui: Ui, part: Part) -> list[Hit]:
    page = ui.admin.list_workers(page_size=LOOKED_AT, queues=visit().scope)
    found = [one for one in page if part.of(one.id) or part.of(one.hostname)]
    return [Hit(url_for(".worker", id=one.id), one.id, one.liveness, "workers") for one in found[: SHOWN + 1]]


def _workflows(ui: Ui, text: str, part: Part) -> list[Hit]:
    page = list(ui.admin.list_workflows(page_size=LATEST, scope=visit().scope))
    found = [one for one in page if part.of(one.name) or part.of(one.id)]
    if not found and text.startswith("flow_"):
        with suppress(errors.UnknownWorkflow):
            found = [ui.admin.get_workflow(text, scope=visit().scope)]
    return [
        Hit(url_for(".workflow", id=one.id), one.name, f"{one.id}, {one.status}", "workflows")
        for one in found[: SHOWN + 1]
    ]


def _batches(ui: Ui, text: str, part: Part) -> list[Hit]:
    page = list(ui.admin.list_batches(page_size=LATEST, scope=visit().scope))
    found = [one for one in page if part.of(one.name) or part.of(one.id)]
    if not found and text.startswith("batch_"):
        with suppress(errors.UnknownBatch):
            found = [ui.admin.get_batch(text, scope=visit().scope)]
    return [
        Hit(url_for(".batch", id=one.id), one.name, f"{one.id}, {one.status}", "batches") for one in found[: SHOWN + 1]
    ]


def _limits(ui: Ui, part: Part) -> list[Hit]:
    found = [one for one in ui.admin.list_limits(page_size=LOOKED_AT) if part.of(one.name)]
    return [
        Hit(url_for(".limit", name=one.name), one.name, limit_words(one.concurrency, one.rate, one.per), "limits")
        for one in found[: SHOWN + 1]
    ]


def _rules(ui: Ui, part: Part) -> list[Hit]:
    found = [one for one in ui.admin.list_alert_rules() if part.of(one.name)]
    return [Hit(url_for(".alerts", rule=one.name), one.name, one.when, "alerts") for one in found[: SHOWN + 1]]


def _pages(text: str) -> list[str]:
    """Pages of this title, or whose title begins so."""
    given = text.casefold()
    titles = ((endpoint, title.casefold()) for endpoint, title in PAGES.items())
    return [
        endpoint for endpoint, title in titles if title == given or (len(given) >= SHORTEST and title.startswith(given))
    ]


def _page(endpoint: str) -> Hit:
    return Hit(url_for(f".{endpoint}"), PAGES[endpoint], icon=ICONS.get(endpoint, endpoint))


def _looked(ui: Ui) -> str:
    """What was looked through, in words."""
    kinds = ["job ids", "exact keys", "job types"]
    kinds += ["errors of dead jobs"] if _opens(ui, "dead") else []
    kinds += [words for page, words in _KINDS.items() if _opens(ui, page)]
    return f"{', '.join(kinds[:-1])} and {kinds[-1]}"


ROUTES = (Route("/find", "find", find, "job.view", query=("q",)),)
