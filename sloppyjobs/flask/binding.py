"""The jobs of one application: its database, and its context around everything that runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flask import Flask
from flask.cli import ScriptInfo

from sloppyjobs import errors
from sloppyjobs.domain import deploys, options
from sloppyjobs.domain.deploys import VERSION_VARIABLE
from sloppyjobs.encryption import KEYS_VARIABLE, Keyring, Sealing, keyring_from
from sloppyjobs.flask.embedded import EmbeddedWorker
from sloppyjobs.internals import internals
from sloppyjobs.jobs import Jobs
from sloppyjobs.observe.hooks import F, Hooks, JobHook, Middleware
from sloppyjobs.schedules.registry import Schedules
from sloppyjobs.storage import forget_connections_after_fork, from_url
from sloppyjobs.storage.ports import CallerConnection, Store

if TYPE_CHECKING:
    from sloppyjobs.flask.extension import SloppyJobs
    from sloppyjobs.worker.runners.find_jobs import Find

NAME = "sloppyjobs"
"""The key in ``app.extensions`` under which an application keeps its jobs."""
URL = "SLOPPYJOBS_DATABASE_URL"
LOCATION = "SLOPPYJOBS_APP"


@dataclass(frozen=True)
class Binding:
    """An application, and where it keeps its jobs."""

    app: Flask
    db: Any
    bind_key: str | None
    options: Mapping[str, Any]

    def storage(self) -> Store:
        """The storage; engines of a Flask-SQLAlchemy are known only inside a context."""
        if self.db is None:
            return from_url(self._url(), **self.options)
        with self.app.app_context():
            engines = self.db.engines
        if self.bind_key not in engines:
            known = ", ".join(repr(key) for key in engines if key is not None) or "none"
            raise options.refuse("bind_key", self.bind_key, f"SQLALCHEMY_BINDS has no such key; known: {known}")
        return from_url(engines[self.bind_key], **self.options)

    def forget_connections_after_fork(self) -> None:
        """Let a forked child begin without the connections that its parent has opened already, by whatever means.

        A server that loads the application before it forks would share them, and mix up transactions.
        """
        with self.app.app_context(), suppress(RuntimeError):  # a Flask-SQLAlchemy that is initialised after us
            # Those of the other binds, too: handlers use them, and share a transaction's fate with them.
            for engine in () if self.db is None else self.db.engines.values():
                forget_connections_after_fork(engine)

    def chooses_engine(self, session: Any) -> bool:
        """Whether the session would go to another database of the application, unless it is told to go to ours."""
        if self.db is None or self.bind_key is None:
            return False
        return session is self.db.session or getattr(session, "_db", None) is self.db

    @property
    def prefix(self) -> str:
        """What the names of our tables begin with."""
        return str(self.options.get("prefix", "sloppy_"))

    @contextmanager
    def context(self) -> Iterator[None]:
        """A context of the application, whose session is removed at the end."""
        with self.app.app_context():
            try:
                yield
            finally:
                if self.db is not None:
                    self.db.session.remove()

    def keyring(self) -> Keyring | None:
        """The keys of the configuration, or of the environment."""
        return keyring_from(self.app.config.get(KEYS_VARIABLE) or os.environ.get(KEYS_VARIABLE))

    def app_version(self) -> str | None:
        """The application's version as its configuration says it; workers look in the environment themselves."""
        given = self.app.config.get(VERSION_VARIABLE)
        return None if given in (None, "") else deploys.app_version(VERSION_VARIABLE, given)

    def _url(self) -> str:
        url = self.app.config.get(URL) or os.environ.get(URL)
        if not url:
            raise errors.JobsError(
                f"the application {self.app.import_name!r} does not say where its jobs are kept: "
                f"pass a Flask-SQLAlchemy, jobs.init_app(app, db), or set {URL}"
            )
        return str(url)


class AppHooks(Hooks):
    """The hooks of a ``SloppyJobs``, inside a context of one application."""

    def __init__(self, origin: Hooks, context: Callable[[], Any]) -> None:
        self._origin = origin
        self._context = context
        self._around: tuple[Middleware, ...] = (self._in_context, self._in_context_async)
        self.log_levels = origin.log_levels

    @property
    def middlewares(self) -> tuple[Middleware, ...]:
        """The application's context first."""
        return (*self._around, *self._origin.middlewares)

    @property
    def dead(self) -> tuple[JobHook, ...]:
        """Called for every job that is dead."""
        return self._origin.dead

    @property
    def retry(self) -> tuple[JobHook, ...]:
        """Called for every job that failed and will be tried again."""
        return self._origin.retry

    def add_middleware(self, function: F) -> F:
        """Surround the handlers of every application."""
        return self._origin.add_middleware(function)

    def add_dead(self, function: F) -> F:
        """Call ``function`` for every job that is dead, in every application."""
        return self._origin.add_dead(function)

    def add_retry(self, function: F) -> F:
        """Call ``function`` for every job that will be tried again, in every application."""
        return self._origin.add_retry(function)

    def hook_context(self) -> Any:
        """A context of the application."""
        return self._context()

    def _in_context(self, ctx: Any, payload: Any, call_next: Callable[..., Any]) -> Any:
        with self._context():
            return call_next(ctx, payload)

    async def _in_context_async(self, ctx: Any, payload: Any, call_next: Callable[..., Any]) -> Any:
        with self._context():
            return await call_next(ctx, payload)


class AppSchedules(Schedules):
    """The schedules of a ``SloppyJobs``, in the database of one application."""

    def __init__(self, origin: Schedules, storage: Callable[[], Store], sealing: Sealing) -> None:
        # What is declared later on the one is declared on the other.
        vars(self).update(vars(origin))
        self._find_storage = storage
        self._find_sealing = lambda: sealing


class AppJobs(Jobs):
    """The jobs of a ``SloppyJobs`` in one application: the same definitions and hooks, one database.

    It is what ``app.extensions["sloppyjobs"]`` holds, and what workers, commands and pages of that application use.
    """

    def __init__(self, origin: SloppyJobs, binding: Binding) -> None:
        self.origin = origin
        self.binding = binding
        inside = internals(origin)
        sealing = inside.sealing if inside.sealing.on else Sealing(binding.keyring())
        hooks = AppHooks(inside.hooks, binding.context)
        self._internals = replace(inside, hooks=hooks, find=self._find_jobs, sealing=sealing)
        self.schedules = AppSchedules(origin.schedules, lambda: self.storage, sealing)
        self.declared_limits = origin.declared_limits.on(lambda: self.storage)
        self.declared_queues = origin.declared_queues.on(lambda: self.storage)
        self.app_version = binding.app_version() if origin.app_version is None else origin.app_version
        self.embedded = EmbeddedWorker(self, binding.app)
        self.location: str | None = None
        """What ``flask --app`` was given, if that is how the application was found."""
        self._lock = threading.Lock()
        self._found: Store | None = None

    def __getattr__(self, name: str) -> Any:
        """Everything else is the origin's: definitions, retention."""
        if name == "origin":
            raise AttributeError(name)
        return getattr(self.origin, name)

    @property
    def storage(self) -> Store:
        """Where the jobs of this application are kept; found when it is first asked for."""
        if self._found is None:
            with self._lock:
                if self._found is None:
                    found = self.binding.storage()
                    self._sealing.serve(found)
                    self._found = found
        return self._found

    def _find_jobs(self) -> Find:
        """The application by its name in a module, or made again by the factory that ``flask --app`` would find.

        ``SLOPPYJOBS_APP`` in its configuration, as in ``shop:create_app('prod')``, says where to find it instead.
        """
        from sloppyjobs.worker.runners.find_jobs import Find, by_name  # noqa: PLC0415 - producers never need it

        app = self.binding.app
        location = app.config.get(LOCATION) or self.location
        named = by_name(app) if location is None else None
        if named is not None:
            return Find(_jobs_by_name, named.arguments)
        return Find(_jobs_by_location, (str(location or app.import_name),))

    def _connection_of(self, session: Any, connection: CallerConnection | None) -> CallerConnection | None:
        if session is None or connection is not None or not self.binding.chooses_engine(session):
            return super()._connection_of(session, connection)
        return self.storage.callers.connection_of(session)


def _jobs_by_name(module: str, name: str) -> Jobs:
    from sloppyjobs.worker.runners.find_jobs import imported  # noqa: PLC0415 - producers never need it

    return _jobs_of(imported(module, name))


def _jobs_by_location(location: str) -> Jobs:
    return _jobs_of(ScriptInfo(app_import_path=location, set_debug_flag=False).load_app())


def _jobs_of(app: Flask) -> Jobs:
    jobs: Jobs = app.extensions[NAME]
    return jobs
