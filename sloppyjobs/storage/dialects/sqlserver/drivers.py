"""The drivers of SQL Server: how one is found, and what to install where it is missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine
from sqlalchemy.exc import NoSuchModuleError

from sloppyjobs import errors

DEFAULT = "mssqlpython"
"""SQLAlchemy's name for mssql-python, which needs nothing but pip."""

_EXTRA = "pip install 'sloppyjobs[sqlserver]'"


def driver_name(url: URL) -> str:
    """SQLAlchemy's name of the driver: the one that the URL names, or the default."""
    return url.drivername.partition("+")[2] or DEFAULT


def create(url: URL, **options: Any) -> Engine:
    """An engine of our own. Raises ``DriverMissing``, which says what to install, where the driver is not there."""
    if not url.host and not url.query:
        # Nowhere to connect to, as for tables that are only printed: no driver is needed.
        return create_engine("mssql+pymssql://", module=SimpleNamespace(paramstyle="pyformat"), **options)
    driver = driver_name(url)
    try:
        return create_engine(url.set(drivername=f"mssql+{driver}"), **options)
    except NoSuchModuleError as error:
        if driver != DEFAULT:
            raise errors.InvalidOption(
                f"the database URL begins with {url.drivername!r}, and SQLAlchemy knows no such driver; use "
                f"mssql+{DEFAULT}://, mssql+pyodbc:// or mssql+pymssql://"
            ) from error
        raise errors.DriverMissing(
            "mssql-python needs SQLAlchemy 2.1 or newer: pip install 'sqlalchemy>=2.1', or name another driver with "
            "mssql+pyodbc:// or mssql+pymssql://"
        ) from error
    except ImportError as error:
        if driver == DEFAULT:
            raise errors.DriverMissing(f"SQL Server needs mssql-python, which is not installed: {_EXTRA}") from error
        raise errors.DriverMissing(
            f"the URL asks for the driver {driver}, which is not installed: install it, or {_EXTRA} and begin the URL "
            f"with mssql+{DEFAULT}://"
        ) from error


def in_autocommit(connection: Connection) -> bool:
    """Whether each statement commits by itself."""
    driver: Any = connection.connection.dbapi_connection
    # pymssql calls it so, and has a method of the other name.
    return bool(getattr(driver, "autocommit_state", None) or getattr(driver, "autocommit", False) is True)
