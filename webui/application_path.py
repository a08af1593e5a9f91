"""``SLOPPYJOBS_APP=module:attribute``: whose definitions, secret keys and database the standalone pages show."""

from __future__ import annotations

import importlib
from typing import Any

from flask import Flask

from sloppyjobs import Jobs, errors
from sloppyjobs.flask import SloppyJobs

EXTENSION = "sloppyjobs"
"""The key in ``app.extensions`` under which an application keeps its jobs."""
ACCEPTED = "name a Jobs, a SloppyJobs, a Flask application that has one, or a function that makes one of these"


def locate(target: str) -> Jobs:
    """The jobs that ``module:attribute`` leads to. Raises ``InvalidOption`` where it leads elsewhere."""
    module, _, attribute = target.partition(":")
    if not module or not attribute:
        raise _refused(target, "must look like module:attribute, such as myapp:jobs or myapp:create_app")
    found: Any = _imported(target, module)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise _refused(target, f"{module} has no {attribute!r}; {ACCEPTED}") from None
    return _jobs_of(target, _made(target, found))


def _imported(target: str, module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if module == missing or module.startswith(f"{missing}."):
            raise _refused(target, f"there is no module {missing!r} on the path") from error
        raise _refused(target, f"{module} needs the module {missing!r}, which is not installed") from error


def _made(target: str, found: Any) -> Any:
    """What a factory makes; everything else as it is."""
    if isinstance(found, Jobs | Flask) or not callable(found):
        return found
    try:
        return found()
    except TypeError as error:
        raise _refused(target, f"it cannot be called without arguments: {error}") from error


def _jobs_of(target: str, found: Any) -> Jobs:
    if isinstance(found, Flask):
        extension = found.extensions.get(EXTENSION)
        if extension is None:
            raise _refused(target, f"the application {found.import_name!r} has no jobs: call jobs.init_app(app, db)")
        found = extension
    if isinstance(found, SloppyJobs):
        # Bound here and now: during requests another application is in force, the one of these pages.
        try:
            found = found.bound()
        except errors.JobsError as error:
            raise _refused(target, str(error)) from error
    if not isinstance(found, Jobs):
        raise _refused(target, f"a {type(found).__name__} is not a Jobs; {ACCEPTED}")
    return found


def _refused(target: str, why: str) -> errors.InvalidOption:
    return errors.InvalidOption(f"SLOPPYJOBS_APP={target!r}: {why}")
