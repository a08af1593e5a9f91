"""Whose jobs a command is about: those of a database, or of an application."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from sloppyjobs.admin import Admin
    from sloppyjobs.jobs import Jobs

DEFAULT_DATABASE = "sqlite:///sloppyjobs.db"
_EXAMPLE = "it looks like myapp.jobs:jobs or myapp:create_app"


@dataclass
class Target:
    """The choice between ``--database`` and ``--app``. Nothing is imported or opened before it is needed."""

    database: str | None = None
    app: str | None = None
    given: Jobs | None = None

    @classmethod
    def chosen(cls, ctx: click.Context, database: str | None, app: str | None) -> Target:
        """What the options and the environment say; an option wins over the environment."""
        typed = [name for name in ("database", "app") if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        if len(typed) == 2:
            raise click.UsageError("--database and --app exclude each other: an application knows its database")
        if app is not None and "database" not in typed:
            return cls(app=app)
        return cls(database=database or DEFAULT_DATABASE)

    @cached_property
    def jobs(self) -> Jobs:
        """The jobs. Raises where there is no such database or application."""
        jobs = self.connected()
        file = jobs.storage.location.file
        # Opening it would leave an empty file behind.
        if file is not None and not file.exists():
            from sloppyjobs.errors import SchemaMissing  # noqa: PLC0415

            raise SchemaMissing(f"there is no database at {file.resolve()}; {self.remedy()}")
        return jobs

    def connected(self) -> Jobs:
        """The jobs, whether the database exists or not."""
        if self.given is None:
            self.given = self._of_app() if self.app is not None else self._of_database()
        return self.given

    @property
    def admin(self) -> Admin:
        """What operators see and do."""
        return self.jobs.admin

    def now(self) -> datetime:
        """The time by the clock in force."""
        return self.jobs.storage.clock.now()

    def where(self) -> str:
        """The database in words, without its password."""
        if self.given is not None:
            return self.given.storage.location.shown
        return "the database"

    def harmless(self, text: str) -> str:
        """What the database says, without the secrets that it may repeat."""
        if self.given is None:
            from sloppyjobs.domain.redaction.redactor import Redactor  # noqa: PLC0415

            return Redactor().text(text)
        return self.given.storage.location.without_secrets(text)

    def remedy(self) -> str:
        """The command that makes the database."""
        option = f"--app {self.app}" if self.app else f"--database {self.where()}"
        if self.database == DEFAULT_DATABASE:
            return "create it with `sloppyjobs init`, or name another with --database or --app"
        return f"create it with `sloppyjobs {option} init`"

    def as_typed(self, text: str) -> str:
        """The text with the commands in it as the user of this program types them."""
        return text if self.app is None else text.replace("--app module:jobs", f"--app {self.app}")

    def close(self) -> None:
        """Give the connections back."""
        if self.given is not None:
            self.given.storage.close()

    def _of_database(self) -> Jobs:
        from sloppyjobs.encryption import configured_keyring  # noqa: PLC0415
        from sloppyjobs.errors import InvalidOption  # noqa: PLC0415
        from sloppyjobs.jobs import Jobs  # noqa: PLC0415

        assert self.database is not None
        keys = configured_keyring()
        try:
            return Jobs(self.database, encryption=keys)
        except InvalidOption as error:
            raise click.BadParameter(str(error), param_hint="--database") from error

    def _of_app(self) -> Jobs:
        assert self.app is not None
        module_name, _, path = self.app.partition(":")
        if not module_name or not path:
            raise _bad_app(f"{self.app!r} has no colon; {_EXAMPLE}")
        found: Any = _module(module_name)
        for attribute in path.split("."):
            try:
                found = getattr(found, attribute)
            except AttributeError:
                raise _bad_app(f"{module_name} has no {path!r}; {_EXAMPLE}") from None
        return _jobs_of(found, self.app)


def _module(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(missing + "."):
            raise _bad_app(f"there is no module {missing!r} here ({here}) or among what is installed") from error
        raise _bad_app(f"{name} needs the module {missing!r}, which is not installed") from error


def _jobs_of(found: Any, spec: str) -> Jobs:
    for _ in range(2):
        if hasattr(found, "storage") and hasattr(found, "admin"):
            jobs: Jobs = found
            return jobs
        extension = getattr(found, "extensions", {}).get("sloppyjobs")
        if extension is not None:
            return _jobs_of(extension, spec)
        if not callable(found):
            break
        try:
            found = found()
        except TypeError as error:
            raise _bad_app(f"{spec} cannot be called without arguments: {error}") from error
    raise _bad_app(f"{spec} is a {type(found).__name__} and not a Jobs; {_EXAMPLE}")


def _bad_app(text: str) -> click.BadParameter:
    return click.BadParameter(text, param_hint="--app")


def as_typed(text: str) -> str:
    """As ``Target.as_typed`` of the target in force."""
    context = click.get_current_context(silent=True)
    return context.obj.as_typed(text) if context is not None and isinstance(context.obj, Target) else text


pass_target = click.make_pass_decorator(Target)
