"""Database URLs and engines: which database they are of, and what is wrong with one."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Engine
from sqlalchemy.exc import NoSuchModuleError

from sloppyjobs import errors
from sloppyjobs.storage import dialects
from sloppyjobs.storage.dialects import Registered
from sloppyjobs.storage.shown_urls import parsed


def checked(target: Any, package: str | None = None) -> URL | Engine:
    """The URL, or the engine, of a supported database and a synchronous driver. Raises ``InvalidOption`` for others.

    With ``package`` it must be the database of that package of ours.
    """
    # An AsyncEngine, without importing what may not be installed.
    found = getattr(target, "sync_engine", target)
    found = found if isinstance(found, Engine) else parsed(found)
    known = kind(found)
    if package not in (None, known.package):
        raise errors.InvalidOption(
            f"storage.{package} was given a database of another kind, {known.name}: "
            f"use storage.{known.package}, or storage.from_url",
            field="target",
        )
    _refuse_async(found, known.name)
    return found


def kind(target: URL | Engine) -> Registered:
    """Which kind of database it is, whatever the driver. Raises ``InvalidOption`` for one that is not supported."""
    name = target.dialect.name if isinstance(target, Engine) else target.get_backend_name()
    found = dialects.registered(name)
    if found is None:
        raise errors.InvalidOption(
            f"database {name!r} is not supported; use a URL such as {dialects.examples()}, or an engine of these"
        )
    return found


def _refuse_async(target: URL | Engine, name: str) -> None:
    url = target.url if isinstance(target, Engine) else target
    if not (target.dialect.is_async if isinstance(target, Engine) else _is_async(url)):
        return
    raise errors.InvalidOption(
        f"{url.drivername} is an asynchronous driver, and Jobs needs a synchronous one: give it a URL that begins "
        f"with {name}://, of the same database. Coroutines call enqueue_async, which takes their AsyncSession "
        "or AsyncConnection"
    )


def _is_async(url: URL) -> bool:
    if "+" not in url.drivername:
        return False
    try:
        return bool(url.get_dialect().is_async)
    except NoSuchModuleError:
        needed = kind(url).needs.get(url.drivername.partition("+")[2])
        raise errors.InvalidOption(
            f"the database URL begins with {url.drivername!r}, and SQLAlchemy knows no such driver"
            + (f"; it needs {needed}" if needed else "")
        ) from None
