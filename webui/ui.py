"""What one mounted blueprint consists of, and what it knows during a request."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from flask import Flask, current_app, g, request
from jinja2 import Environment, StrictUndefined

from sloppyjobs import InvalidOption
from sloppyjobs.admin import Admin
from sloppyjobs.views import DeployView, Overview, Stats
from webui import folders
from webui.assets import Assets
from webui.installation import Installation
from webui.policy import Policy, Resource, checked, queues_of
from webui.routes import Route, changes
from webui.template_loader import UnindentedLoader
from webui.throttle import Throttle

OF_NO_QUEUE = (
    *("audit.view", "lock.view", "alert.view", "alert.test", "encryption.view"),
    *("limit.view", "limit.set", "limit.delete", "limit.release"),
    *("worker.quiet", "worker.resume", "worker.stop"),
    *("deploy.view", "deploy.mark"),
)
"""What tells of all queues at once."""
SIGNED_OUT = "_sloppyjobs_left"
"""Where the session keeps that somebody has signed out."""
CACHE_SECONDS = 1.5
"""Seconds for which an overview is cached."""
DEFAULT_MINUTES = 60
"""Minutes over which an overview counts what is new, unless a page says otherwise."""
RECENT_SECONDS = 60.0
"""Seconds for which its counts are good enough for the navigation."""
DEPLOYS = 20
"""Deploys that are read for a chart."""
DEPLOYS_SECONDS = 15.0
"""Seconds for which they are cached for pages of queues and causes: they change seldom, and pages ask every 3 s."""
CACHE_SIZE = 128
"""Overviews that are cached: of sets of visible queues, each over a span of time."""

NAMELESS = Installation()

Scope = tuple[str, ...] | None


class Snapshot(NamedTuple):
    """One reading: the overview and, where a page has asked for it, what happened over the same span."""

    at: float
    overview: Overview
    stats: Stats | None = None
    deploys: tuple[DeployView, ...] = ()


class Snapshots:
    """The latest overviews of one blueprint, in this process: one for each set of queues and span that is viewed.

    They live shortly, so that their cost does not grow with the number of viewers.
    """

    def __init__(self, admin: Callable[[], Admin], clock: Callable[[], float] = time.monotonic) -> None:
        self._admin = admin
        self._clock = clock
        self._lock = threading.Lock()
        self._cached: OrderedDict[tuple[Scope, int], Snapshot] = OrderedDict()
        self._latest: OrderedDict[Scope, Snapshot] = OrderedDict()
        self._deploys: tuple[float, tuple[DeployView, ...]] | None = None

    def overview(self, scope: Scope, age: float = CACHE_SECONDS) -> Overview:
        """The overview of these queues, not older than ``age`` seconds; one caller reads it while the others wait."""
        with self._lock:
            cached = self._cached.get((scope, DEFAULT_MINUTES))
            if cached is None or self._old(cached, age):
                cached = self._store(scope, Snapshot(self._clock(), self._admin().overview(queues=scope)))
            return cached.overview

    def page(self, scope: Scope, minutes: int) -> tuple[Overview, Stats, tuple[DeployView, ...]]:
        """The overview with the counters of the last ``minutes`` and the latest deploys, read at the same time."""
        with self._lock:
            cached = self._cached.get((scope, minutes))
            if cached is None or cached.stats is None or self._old(cached, CACHE_SECONDS):
                admin, at = self._admin(), self._clock()
                overview = admin.overview(queues=scope, minutes=minutes)
                stats = admin.stats(minutes=minutes, queues=scope, compare=True)
                # Deploys belong to no queue: who sees some queues only does not see them.
                deploys = admin.list_deploys(page_size=DEPLOYS).items if scope is None else ()
                self._store(scope, Snapshot(at, overview, stats, deploys))
                return overview, stats, deploys
            return cached.overview, cached.stats, cached.deploys

    def deploys(self) -> tuple[DeployView, ...]:
        """The latest deploys, latest first, not older than ``DEPLOYS_SECONDS``."""
        with self._lock:
            if self._deploys is None or self._clock() - self._deploys[0] > DEPLOYS_SECONDS:
                self._deploys = self._clock(), self._admin().list_deploys(page_size=DEPLOYS).items
            return self._deploys[1]

    def latest(self, scope: Scope, age: float) -> Overview:
        """The overview that was read last, over whatever span; read now where it is older than ``age`` seconds."""
        cached = self._latest.get(scope)
        return self.overview(scope, age) if cached is None or self._old(cached, age) else cached.overview

    def recent(self, scope: Scope) -> Overview | None:
        """The overview of these queues that somebody has read lately, if there is one; asks nothing."""
        cached = self._latest.get(scope)
        return None if cached is None or self._old(cached, RECENT_SECONDS) else cached.overview

    def clear(self) -> None:
        """After a command: what is cached is out of date."""
        with self._lock:
            self._cached.clear()
            self._latest.clear()
            self._deploys = None

    def _old(self, cached: Snapshot, age: float) -> bool:
        return self._clock() - cached.at > age

    def _store(self, scope: Scope, snapshot: Snapshot) -> Snapshot:
        self._cached[scope, snapshot.overview.minutes] = self._latest[scope] = snapshot
        self._cached.move_to_end((scope, snapshot.overview.minutes))
        self._latest.move_to_end(scope)
        for cached in (self._cached, self._latest):
            while len(cached) > CACHE_SIZE:
                cached.popitem(last=False)
        return snapshot


class JobsLike(Protocol):
    """What the UI needs of a ``Jobs``; one that binds late is asked only inside requests."""

    @property
    def admin(self) -> Admin:
        """What operators see and do."""


class Visit(NamedTuple):
    """Who is asking, under which policy, and which queues they see."""

    policy: Policy
    actor: Any
    scope: tuple[str, ...] | None
    read_only: bool
    answers: dict[tuple[str, str | None], bool]
    """What the policy has answered in this request: a page asks the same for every row."""

    def may(self, action: str, id: str | None = None) -> bool:
        """Whether the actor may do this; ``read_only`` wins over everything.

        What belongs to no queue cannot be limited to some: who sees some queues only does not see it at all.
        """
        if (self.read_only and changes(action)) or (self.scope is not None and action in OF_NO_QUEUE):
            return False
        if (action, id) not in self.answers:
            resource = Resource(action.partition(".")[0], id)
            self.answers[action, id] = bool(self.policy.can(self.actor, action, resource))
        return self.answers[action, id]

    def lacks(self, route: Route, arguments: dict[str, Any]) -> str | None:
        """The first permission for a route that the actor does not have; None where nothing is missing."""
        id = arguments.get("id") or arguments.get("name")
        return next((action for action in route.needs(arguments) if not self.may(action, id=id)), None)

    def sees(self, queue: str) -> bool:
        """Whether jobs of this queue are visible."""
        return self.scope is None or queue in self.scope

    @property
    def actor_name(self) -> str:
        """The actor as the audit trail writes it."""
        return str(self.actor)


class Ui:
    """One mounted blueprint. Nothing in it changes after it was made, except caches."""

    def __init__(
        self,
        jobs: JobsLike,
        policy: Policy | None,
        api_policy: Policy | None,
        name: str,
        *,
        read_only: bool,
        signs_out: bool = False,
        installation: Installation = NAMELESS,
    ) -> None:
        # Its ``admin`` is not asked for: one that binds late, or a proxy, has none yet.
        if jobs is None or issubclass(type(jobs), str | type | Flask):
            raise InvalidOption(f"jobs must be a Jobs or a SloppyJobs, not a {type(jobs).__name__}", field="jobs")
        self.jobs = jobs
        self.policy = checked("policy", policy)
        self.api_policy = checked("api_policy", api_policy)
        self.name = name
        self._read_only = read_only
        self.signs_out = signs_out
        """Whether signing in and out is ours; a host has its own."""
        self.installation = installation
        self.assets = Assets(folders.find("static"))
        # An environment of our own: a host's delimiters, filters and templates cannot meet ours.
        self.templates = Environment(
            loader=UnindentedLoader(folders.find("templates")),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.routes: dict[str, Route] = {}
        self.snapshots = Snapshots(lambda: self.admin)
        for one in (policy, api_policy):
            throttle = getattr(one, "throttle", None)
            if isinstance(throttle, Throttle):
                throttle.share(lambda: self.admin)

    @property
    def knows_jobs(self) -> bool:
        """Whether this process has definitions of the application."""
        return any(True for _ in getattr(self.jobs, "definitions", ()))

    @property
    def admin(self) -> Admin:
        """The admin service, found anew in every request."""
        return self.jobs.admin

    @property
    def read_only(self) -> bool:
        """Whether every command is refused: by the blueprint's option or by the host's configuration."""
        return self._read_only or bool(current_app.config.get("SLOPPYJOBS_WEBUI_READ_ONLY", False))

    @property
    def cookie(self) -> str:
        """The name of the cookie with a viewer's preferences."""
        return f"{self.name}_preferences"

    def deploys(self) -> tuple[DeployView, ...]:
        """The latest deploys for a chart, latest first; none for who may not see them."""
        return self.snapshots.deploys() if visit().may("deploy.view") else ()

    def current_route(self) -> Route:
        """The route of the request."""
        return self.routes[(request.endpoint or "").rpartition(".")[2]]

    def begin(self, policy: Policy, actor: Any) -> Visit:
        """Remember who is asking for the length of this request."""
        visit = Visit(policy, actor, queues_of(policy.scope(actor)), self.read_only, {})
        g.sloppyjobs_visit = visit
        return visit


def visit() -> Visit:
    """Who is asking."""
    found: Visit = g.sloppyjobs_visit
    return found


def visit_or_none() -> Visit | None:
    """Who is asking, if that is known already."""
    found: Visit | None = g.get("sloppyjobs_visit")
    return found
