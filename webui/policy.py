"""Who may do what. The host decides through a ``Policy``; without one nobody may do anything.

Actions are named per verb: ``job.view``, ``job.retry``, ``bulk.delete``, ``queue.pause``, ``recurring.trigger``,
``audit.view`` and so on; ``ACTIONS`` lists them all.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from flask import Response, request
from flask.typing import ResponseReturnValue

from webui.throttle import Throttle

log = logging.getLogger(__name__)

COMMANDS = ("retry", "run", "pause", "resume", "cancel", "delete")
VIEWS = ("overview", "job", "dead", "queue", "recurring", "worker", "lock", "audit", "metrics")
ACTIONS = (
    *(f"{page}.view" for page in VIEWS),
    *(f"job.{command}" for command in COMMANDS),
    *(f"bulk.{command}" for command in COMMANDS),
    "queue.pause",
    "queue.resume",
    "recurring.pause",
    "recurring.resume",
    "recurring.trigger",
    "recurring.delete",
)
"""Everything a policy is asked about."""


class Resource(NamedTuple):
    """What an action is about: ``job``, ``queue`` or ``recurring`` with its id or name; no id for a whole page."""

    kind: str
    id: str | None = None


@runtime_checkable
class Policy(Protocol):
    """What a host implements. Every method is called inside the request."""

    def actor(self) -> Any:
        """Who is asking, or None for nobody; ``str()`` of it is written to the audit trail."""

    def can(self, actor: Any, action: str, resource: Resource) -> bool:
        """Whether the actor may do this. Never decide by the remote address or by forwarded headers."""

    def scope(self, actor: Any) -> Iterable[str] | None:
        """The queues whose jobs the actor sees; None for all of them.

        Of workers it shows those that take from these queues. Locks and the audit trail belong to no queue: an
        actor with a scope does not see them, whatever ``can`` says.
        """

    def on_unauthenticated(self) -> ResponseReturnValue:
        """The answer where ``actor`` found nobody: a redirect to the host's login, or a challenge."""


class AllowAll:
    """NO AUTHENTICATION: everybody may do everything. For tests and for a machine of one's own."""

    def __init__(self) -> None:
        log.warning("AllowAll: the job admin has NO AUTHENTICATION; whoever reaches it may do everything")

    def actor(self) -> Any:
        """Somebody."""
        return "anyone"

    def can(self, actor: Any, action: str, resource: Resource) -> bool:
        """Always."""
        return True

    def scope(self, actor: Any) -> Iterable[str] | None:
        """Everything."""
        return None

    def on_unauthenticated(self) -> ResponseReturnValue:
        """Does not happen."""
        return Response("", 401)


class BasicAuthPolicy:
    """One user with a password, over HTTP Basic. Compared in constant time; failed tries are throttled."""

    def __init__(self, username: str, password: str, *, realm: str = "sloppyjobs") -> None:
        if not username or not password:
            raise ValueError("BasicAuthPolicy needs a username and a password that are not empty")
        self._username = username
        self._password = password
        self._realm = realm
        self._throttle = Throttle()

    def actor(self) -> Any:
        """The user, when the password is right and tries are not throttled."""
        given = request.authorization
        if given is None or given.type != "basic":
            return None
        key = request.remote_addr or ""
        if self._throttle.closed(key):
            return None
        right_name = _same(given.username or "", self._username)
        right_password = _same(given.password or "", self._password)
        if right_name and right_password:
            return self._username
        self._throttle.failed(key)
        return None

    def can(self, actor: Any, action: str, resource: Resource) -> bool:
        """The one user may do everything."""
        return True

    def scope(self, actor: Any) -> Iterable[str] | None:
        """Everything."""
        return None

    def on_unauthenticated(self) -> ResponseReturnValue:
        """The browser's own login, or 429 after too many wrong passwords."""
        wait = self._throttle.closed(request.remote_addr or "")
        if wait:
            return Response("Too many wrong passwords; wait and try again.\n", 429, {"Retry-After": str(wait)})
        challenge = f'Basic realm="{self._realm}", charset="UTF-8"'
        return Response("A user name and a password are needed.\n", 401, {"WWW-Authenticate": challenge})


class TokenPolicy:
    """Bearer tokens for ``/api/v1`` and ``/metrics``: a token for each name; the name is the actor."""

    def __init__(
        self,
        tokens: str | Mapping[str, str],
        *,
        can: Callable[[Any, str, Resource], bool] | None = None,
        scope: Iterable[str] | None = None,
    ) -> None:
        self._tokens = {"api token": tokens} if isinstance(tokens, str) else dict(tokens)
        if not self._tokens or not all(self._tokens.values()):
            raise ValueError("TokenPolicy needs at least one token, and none that is empty")
        self._can = can
        self._scope = None if scope is None else tuple(scope)

    def actor(self) -> Any:
        """The name of the token that was sent."""
        given = request.authorization
        if given is None or given.type != "bearer" or not given.token:
            return None
        # Every token is compared, so that the time does not say which one came close.
        found = [name for name, token in self._tokens.items() if _same(given.token, token)]
        return found[0] if found else None

    def can(self, actor: Any, action: str, resource: Resource) -> bool:
        """What the given function says; everything without one."""
        return True if self._can is None else self._can(actor, action, resource)

    def scope(self, actor: Any) -> Iterable[str] | None:
        """The given queues."""
        return self._scope

    def on_unauthenticated(self) -> ResponseReturnValue:
        """A challenge."""
        return Response("A bearer token is needed.\n", 401, {"WWW-Authenticate": 'Bearer realm="sloppyjobs"'})


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass"))
