"""The database is away: one error for every way in which it can be, whichever driver reports it."""

from __future__ import annotations

from typing import Any, Self

from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from sloppyjobs import errors

DatabaseError = SQLAlchemyError
"""What the database or its driver raises where the library has no name for it."""

NOT_DONE = "nothing was changed"
MAYBE_DONE = (
    "the connection was lost before the answer came, so the work may have been done all the same: "
    "look before you repeat it, or repeat it with the same idempotency_key"
)


_DENIED = "the database refuses this to its user"
RIGHTS_HINT = "`sloppyjobs doctor` names the rights that are missing"


# SQLAlchemy calls "code" what leads to a page of its documentation; ours is the one that callers look at.
class StorageUnavailable(errors.StorageUnavailable, OperationalError):  # type: ignore[misc]
    """The library's error, and SQLAlchemy's at once, so that ``except DBAPIError`` of callers goes on working.

    It shows neither the statement nor its values, which may be secret.
    """

    def __init__(
        self,
        reason: str,
        orig: BaseException,
        *,
        maybe_done: bool,
        connection_invalidated: bool,
        read_only: bool = False,
        timed_out: bool = False,
        wrong_address: bool = False,
        denied: bool = False,
    ) -> None:
        DBAPIError.__init__(self, None, None, orig, connection_invalidated=connection_invalidated)
        self.reason = reason
        self.maybe_done = maybe_done
        self.read_only = read_only
        self.timed_out = timed_out
        self.wrong_address = wrong_address
        self.denied = denied

    @classmethod
    def of(
        cls,
        error: DBAPIError,
        *,
        maybe_done: bool,
        read_only: bool = False,
        timed_out: bool = False,
        wrong_address: bool = False,
        denied: bool = False,
    ) -> Self:
        """The same error under our name; one that has it already is kept, and stays in doubt once it was."""
        if isinstance(error, cls):
            error.maybe_done = error.maybe_done or maybe_done
            error.read_only = error.read_only or read_only
            error.timed_out = error.timed_out or timed_out
            error.wrong_address = error.wrong_address or wrong_address
            error.denied = error.denied or denied
            return error
        orig = error.orig or error
        lines = [line.strip() for line in str(orig).splitlines() if line.strip()]
        said = lines[0] if lines else type(orig).__name__
        reason = f"{_DENIED}: {said}; {RIGHTS_HINT}" if denied else f"the database is not available: {said}"
        return cls(
            reason,
            orig,
            maybe_done=maybe_done,
            connection_invalidated=error.connection_invalidated,
            read_only=read_only,
            timed_out=timed_out,
            wrong_address=wrong_address,
            denied=denied,
        )

    def __str__(self) -> str:
        """The reason, and what has become of the work."""
        return f"{self.reason}; {MAYBE_DONE if self.maybe_done else NOT_DONE}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Handlers in processes of their own get it through a pipe."""
        facts = {name: getattr(self, name) for name in _FACTS}
        return _restored, (self.reason, self.orig, facts)


class PoolExhausted(errors.StorageUnavailable, PoolTimeout):  # type: ignore[misc]
    """No connection of the pool came back in time: the library's error, and SQLAlchemy's ``TimeoutError`` at once."""

    def __init__(self, reason: str, *, maybe_done: bool = False) -> None:
        PoolTimeout.__init__(self, reason)
        self.reason = reason
        self.maybe_done = maybe_done

    @classmethod
    def of(cls, error: PoolTimeout, *, maybe_done: bool = False) -> Self:
        """The same under our name; one that has it already is kept, and stays in doubt once it was."""
        if isinstance(error, cls):
            error.maybe_done = error.maybe_done or maybe_done
            return error
        # SQLAlchemy's own words, without the address of a page about them.
        said = str(error.args[0]) if error.args else "the pool has no connection left"
        reason = f"no connection to the database is free: {said}; enlarge the engine's pool, or hold fewer at once"
        return cls(reason, maybe_done=maybe_done)

    def __str__(self) -> str:
        """The reason, and what has become of the work."""
        return f"{self.reason}; {MAYBE_DONE if self.maybe_done else NOT_DONE}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Handlers in processes of their own get it through a pipe."""
        return _pool_restored, (self.reason, self.maybe_done)


def _pool_restored(reason: str, maybe_done: bool) -> PoolExhausted:
    return PoolExhausted(reason, maybe_done=maybe_done)


_FACTS = ("maybe_done", "connection_invalidated", "read_only", "timed_out", "wrong_address", "denied")


def _restored(reason: str, orig: BaseException, facts: dict[str, bool]) -> StorageUnavailable:
    return StorageUnavailable(reason, orig, **facts)


def may_recover(error: BaseException) -> bool:
    """Whether the database cannot be reached or written to now, and may be later.

    A wrong address stays wrong, and a right that is missing is given by somebody.
    """
    lasts = getattr(error, "wrong_address", False) or getattr(error, "denied", False)
    if isinstance(error, errors.SchemaVersionMismatch) or lasts:
        return False
    return isinstance(
        error, errors.StorageUnavailable | OperationalError | InterfaceError | InternalError | PoolTimeout
    )
