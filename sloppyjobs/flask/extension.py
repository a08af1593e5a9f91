"""``SloppyJobs``: a ``Jobs`` for application factories. It is bound to its database by the application in force."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flask import Flask, current_app, has_app_context

from sloppyjobs import errors
from sloppyjobs.autogenerate import register_where_migrations_may_run
from sloppyjobs.domain import deploys, options, payload
from sloppyjobs.encryption import Keyring, Sealing
from sloppyjobs.flask.binding import NAME, URL, AppJobs, Binding
from sloppyjobs.flask.commands import FlaskCommands
from sloppyjobs.flask.embedded import enabled_settings
from sloppyjobs.flask.principal import signed_in_user
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.ports import CallerConnection, Store

if TYPE_CHECKING:
    from sloppyjobs.worker import Worker


class SloppyJobs(Jobs):
    """A ``Jobs`` that binds late: define and declare at once, ``init_app`` when there is an application.

    Inside an application context it works on that application's database; outside, on that of the one application it
    was initialised with. Anything that needs the database raises ``JobsError`` while it has none. What is enqueued in a
    request is on behalf of Flask-Login's user, where the application has Flask-Login, or of whom ``principal`` names.
    """

    def __init__(
        self,
        app: Flask | None = None,
        db: Any = None,
        *,
        payload_limit: int = payload.DEFAULT_LIMIT,
        application: str | None = None,
        principal: Callable[[], str | None] | None = None,
        encryption: Keyring | None = None,
        app_version: str | None = None,
    ) -> None:
        self._applications = 0
        # Of several none is kept: an application that a test has made may go when the test ends.
        self._only_app: Flask | None = None
        self._set_up(payload_limit, application, signed_in_user if principal is None else principal, encryption)
        self.app_version = None if app_version is None else deploys.app_version("app_version", app_version)
        if app is not None:
            self.init_app(app, db)

    def init_app(self, app: Flask, db: Any = None, bind_key: str | None = None, **storage: Any) -> None:
        """Keep the jobs of ``app`` in the database of ``db``, a Flask-SQLAlchemy, or of one of its bind keys.

        Without ``db`` the database is ``SLOPPYJOBS_DATABASE_URL`` of the application's configuration, or of the
        environment; ``SLOPPYJOBS_ENCRYPTION_KEYS`` likewise are the keys, where no keyring is given, and
        ``SLOPPYJOBS_APP_VERSION`` the application's version, where none is. ``storage`` are options of the storage,
        such as ``prefix`` or ``clock``. Handlers run inside a context of ``app``, and ``db.session`` is removed after
        each. Adds the commands ``flask jobs …``, and the embedded worker if ``SLOPPYJOBS_EMBEDDED_WORKER`` asks for it.
        Opens no connection and starts no thread.
        """
        if not isinstance(app, Flask):
            raise options.refuse("app", app, "must be a Flask application")
        if db is not None and not {"engines", "session"} <= set(dir(db)):
            # Not shown: a URL may hold a password.
            accepted = f"db must be a Flask-SQLAlchemy, not a {type(db).__name__}; for a URL, set {URL} instead"
            raise errors.InvalidOption(accepted, field="db", reason=accepted)
        if NAME in app.extensions:
            raise errors.JobsError(f"the application {app.import_name!r} has its jobs already; initialise it once")
        if db is None and bind_key is not None:
            raise options.refuse("bind_key", bind_key, "a bind key needs its Flask-SQLAlchemy: init_app(app, db)")
        register_where_migrations_may_run()
        bound = AppJobs(self, Binding(app, db, bind_key, storage))
        app.extensions[NAME] = bound
        bound.binding.forget_connections_after_fork()
        self._applications += 1
        self._only_app = app if self._applications == 1 else None
        if "jobs" not in app.cli.commands:
            app.cli.add_command(FlaskCommands())
        settings = enabled_settings(app)
        if settings is not None:
            bound.embedded.start_at_first_request(settings)

    def bound(self, app: Flask | None = None) -> AppJobs:
        """The jobs of ``app``, or of the application in force; they stay with it wherever they are used."""
        return self._of(app if app is not None else self._app_in_force())

    def start_embedded_worker(self, app: Flask | None = None, **settings: Any) -> bool:
        """Work in threads of this process, for small deployments; the settings are those of ``create_worker``.

        Call it where the process serves, after a server has forked. Where that has not happened yet (in gunicorn's
        master, in the parent of the debug reloader, in a command of ``flask``), the worker starts with the first
        request, in the process that serves it. Returns whether it starts now; in a script that takes a few seconds,
        until it is known that the script does not start the reloader. It is stopped when the process exits.
        """
        return self.bound(app).embedded.start(settings)

    @property
    def storage(self) -> Store:
        """Where the jobs of the application in force are kept."""
        return self.bound().storage

    @property
    def _sealing(self) -> Sealing:
        # Before there is an application, nothing is written.
        return self.bound()._sealing

    def create_worker(self, **settings: Any) -> Worker:
        """A worker for the application in force; it stays with it in all its threads."""
        return self.bound().create_worker(**settings)

    def _connection_of(self, session: Any, connection: CallerConnection | None) -> CallerConnection | None:
        return self.bound()._connection_of(session, connection)

    def _app_in_force(self) -> Flask:
        if has_app_context():
            app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
            return app
        if self._only_app is not None:
            return self._only_app
        if self._applications:
            raise errors.JobsError(
                f"these jobs belong to {self._applications} applications: use them inside `with app.app_context():`"
            )
        raise errors.JobsError(
            "these jobs are not bound to an application yet: call jobs.init_app(app, db), and name the application "
            "to commands, as in --app module:create_app"
        )

    def _of(self, app: Flask) -> AppJobs:
        found = app.extensions.get(NAME)
        if not isinstance(found, AppJobs) or found.origin is not self:
            raise errors.JobsError(
                f"the application {app.import_name!r} is not initialised with these jobs: call jobs.init_app(app, db)"
            )
        return found
