"""Jobs, names and queues by a part of what they are called. Bounded like every read: of very many some are missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from sloppyjobs import errors
from sloppyjobs.admin.filters import scope_of
from sloppyjobs.admin.known_names import NameAdmin
from sloppyjobs.domain import options
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.ids import ALPHABET, SHORT_MARK, parts_of_short
from sloppyjobs.paging import PAGE_SIZE
from sloppyjobs.storage.ports import Store
from sloppyjobs.views import JobRow, JobView, Page

LATEST = 5_000
"""Ids in which a part is searched."""
SHORT_IDS = 20_000
_PREFIX = "job_"
_LEAST = 4
"""Characters of an id that are enough for a search."""
_KEYS = ("idempotency_key", "business_key", "correlation_id", "tag")


def _text(text: object) -> str:
    if not isinstance(text, str):
        raise options.refuse("text", text, "must be text")
    return str.__str__(text)


class FoundJobs(NamedTuple):
    """Jobs by what was found of them: ``id``, ``idempotency_key``, ``business_key``, ``correlation_id`` or ``tag``."""

    by: str
    jobs: tuple[JobRow, ...]


class FoundNames(NamedTuple):
    """Names of jobs and of queues that contain what was searched, each in order."""

    names: tuple[str, ...]
    queues: tuple[str, ...]


class Part:
    """What was typed, to be found in names: any part of them, whatever its case, or a beginning and an end."""

    def __init__(self, text: str) -> None:
        self._text = text.casefold()
        self._head, self._mark, self._tail = self._text.replace("...", SHORT_MARK).partition(SHORT_MARK)

    def of(self, name: str | None) -> bool:
        """Whether a name contains it, or is what was shortened to it."""
        given = (name or "").casefold()
        if self._text in given:
            return bool(given)
        return bool(self._mark and self._head) and given.startswith(self._head) and given.endswith(self._tail)


class FindAdmin(NameAdmin):
    """What is called like something."""

    _storage: Store
    _definitions: Definitions

    def get_job(self, id: str) -> JobView:
        """The job, as the admin shows it."""
        raise NotImplementedError

    def list_jobs(self, *given: Any, **options: Any) -> Page[JobRow]:
        """Jobs, as the admin lists them."""
        raise NotImplementedError

    def find_jobs(self, text: str, *, scope: Iterable[str] | None = None, limit: int = 20) -> tuple[FoundJobs, ...]:
        """Up to ``limit`` jobs by their id, a shortened id or a part of one, and by each of their exact keys.

        A part that is no beginning is searched among the latest jobs.
        """
        visible = scope_of(scope)
        text, limit = _text(text), options.whole("limit", limit, least=1, most=PAGE_SIZE)
        found = [FoundJobs("id", tuple(self._by_id(text, visible, limit)))]
        for key in _KEYS:
            try:
                page = self.list_jobs(**{key: text}, page_size=limit, scope=visible)
            except errors.InvalidOption:
                continue
            found.append(FoundJobs(key, page.items))
        return tuple(one for one in found if one.jobs)

    def find_names(self, text: str, *, scope: Iterable[str] | None = None) -> FoundNames:
        """Names of jobs that are defined here or were settled lately, and queues, that contain the text."""
        visible, text = scope_of(scope), _text(text)
        part = Part(text)
        known = self.known_names(visible)
        names = {name for name in known.names if part.of(name)}
        if not names and self._used(text, visible):
            names = {text}
        return FoundNames(tuple(sorted(names)), tuple(queue for queue in known.queues if part.of(queue)))

    def _used(self, name: str, scope: Iterable[str] | None) -> bool:
        """Whether any job is called so, however long ago."""
        try:
            return bool(self.list_jobs(name=name, page_size=1, scope=scope))
        except errors.InvalidOption:
            return False

    def _by_id(self, text: str, scope: Iterable[str] | None, limit: int) -> list[JobRow]:
        found: list[JobRow] = []
        for id in self._ids(text.strip().lower()):
            try:
                job = self.get_job(id)
            except errors.UnknownJob:
                continue
            if scope is None or job.queue in scope:
                found.append(job)
            if len(found) == limit:
                break
        return found

    def _ids(self, text: str) -> list[str]:
        parts = parts_of_short(text)
        if parts is not None:
            return self._storage.lists.ids_between(*parts, limit=SHORT_IDS)[:LATEST]
        rest = text.removeprefix(_PREFIX)
        if len(rest) < _LEAST or not set(rest) <= set(ALPHABET):
            return []
        if text.startswith(_PREFIX):
            return self._storage.lists.ids_between(text, "", limit=100)
        return [id for id in self._storage.search.latest_ids(LATEST) if rest in id.removeprefix(_PREFIX)][:100]
