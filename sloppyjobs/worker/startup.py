"""A worker's startup: it waits for a database that cannot be used yet, and logs that once.

A database that is down or read-only may be available a minute later, as when everything of a host starts at once.
Tables that are missing or of another version are a mistake: that is an error at once.
"""

from __future__ import annotations

from collections.abc import Callable

from sloppyjobs.domain.log_lines import get_logger
from sloppyjobs.storage.ports import may_recover
from sloppyjobs.worker.threads import backoff

log = get_logger("sloppyjobs.worker")


class StopRequested(BaseException):
    """Raised by the handler of SIGTERM and SIGINT while the worker waits: it holds nothing that it could drain."""


def wait_for_database(
    step: Callable[[], None],
    stopped: Callable[[], bool],
    sleep: Callable[[float], None],
) -> bool:
    """Do ``step`` until the database lets it; False when the worker was told to stop before that.

    Raises whatever else goes wrong, such as ``SchemaMissing``.
    """
    failures = 0
    while not stopped():
        try:
            step()
        except Exception as error:
            if not may_recover(error):
                raise
            failures += 1
            if failures == 1:
                log.error("the database cannot be used yet, and the worker waits for it: %s", first_line(error))
            sleep(backoff(failures))
        else:
            if failures:
                log.warning("the database can be used now, after %d failed tries", failures)
            return True
    return False


def first_line(error: BaseException) -> str:
    """The first line of the driver's message."""
    cause = getattr(error, "orig", None) or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return lines[0] if lines else type(cause).__name__
