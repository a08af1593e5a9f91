"""The database is away: one error for every way in which it can be, whichever driver reports it."""

from __future__ import annotations

from typing import Any, Self

from sqlalchemy.exc import DBAPIError, OperationalError

from sloppyjobs import errors

NOT_DONE = "nothing was changed"
MAYBE_DONE = (
    "the connection was lost before the answer came, so the work may have been done all the same: "
    "look before you repeat it, or repeat it with the same idempotency_key"
)


# SQLAlchemy calls "code" what leads to a page of its documentation; ours is the one that callers look at.
class StorageUnavailable(errors.StorageUnavailable, OperationalError):  # type: ignore[misc]
    """The library's error, and SQLAlchemy's at once, so that ``except DBAPIError`` of callers goes on working.

    It shows neither the statement nor its values, which may be secret.
    """

    def __init__(self, reason: str, orig: BaseException, *, maybe_done: bool, connection_invalidated: bool) -> None:
        DBAPIError.__init__(self, None, None, orig, connection_invalidated=connection_invalidated)
        self.reason = reason
        self.maybe_done = maybe_done

    @classmethod
    def of(cls, error: DBAPIError, *, maybe_done: bool) -> Self:
        """The same error under our name; one that has it already is kept, and stays in doubt once it was."""
        if isinstance(error, cls):
            error.maybe_done = error.maybe_done or maybe_done
            return error
        orig = error.orig or error
        lines = [line.strip() for line in str(orig).splitlines() if line.strip()]
        reason = f"the database is not available: {lines[0] if lines else type(orig).__name__}"
        return cls(reason, orig, maybe_done=maybe_done, connection_invalidated=error.connection_invalidated)

    def __str__(self) -> str:
        """The reason, and what has become of the work."""
        return f"{self.reason}; {MAYBE_DONE if self.maybe_done else NOT_DONE}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Handlers in processes of their own get it through a pipe."""
        return _restored, (self.reason, self.orig, self.maybe_done, self.connection_invalidated)


def _restored(reason: str, orig: BaseException, maybe_done: bool, connection_invalidated: bool) -> StorageUnavailable:
    return StorageUnavailable(reason, orig, maybe_done=maybe_done, connection_invalidated=connection_invalidated)
