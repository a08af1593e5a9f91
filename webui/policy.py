"""Who may do what. The host decides through a ``Policy``; without one nobody may do anything.

Actions are named per verb: ``job.view``, ``job.retry``, ``bulk.delete``, ``queue.pause``, ``recurring.trigger``,
``audit.view`` and so on; ``ACTIONS`` lists them all.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable
from urllib.parse import urlsplit

from flask import Response, request, session
from flask.typing import ResponseReturnValue

from sloppyjobs.errors import InvalidOption
from webui import security
from webui.throttle import LocalThrottle, Throttle, network

log = logging.getLogger(__name__)

NOT_GUESSED = 32
"""Characters of a token that nobody guesses at any rate."""
_LINKS, _LABEL = 8, 60
_METHODS = ("actor", "can", "scope", "on_unauthenticated")
_BROWSER = "_sloppyjobs_browser"
"""Where the session keeps the name of a browser that has signed in."""

COMMANDS = ("retry", "run", "pause", "resume", "cancel", "delete")
VIEWS = (
    *("overview", "job", "dead", "queue", "recurring", "workflow", "batch"),
    *("worker", "deploy", "lock", "limit", "audit", "archive", "alert", "encryption", "metrics"),
)
ACTIONS = (
    *(f"{page}.view" for page in VIEWS),
    *(f"job.{command}" for command in COMMANDS),
    *(f"bulk.{command}" for command in COMMANDS),
    "job.patch",
    "job.signal",
    "queue.pause",
    "queue.resume",
    "queue.age",
    "worker.quiet",
    "worker.resume",
    "worker.stop",
    "deploy.mark",
    "recurring.create",
    "recurring.edit",
    "recurring.pause",
    "recurring.resume",
    "recurring.trigger",
    "recurring.delete",
    "workflow.cancel",
    "workflow.retry",
    "archive.restore",
    "alert.test",
    "alert.mute",
    "alert.unmute",
    "limit.set",
    "limit.delete",
    "limit.release",
    "batch.seal",
    "batch.cancel",
    "batch.retry",
)
"""Everything a policy is asked about."""


class Resource(NamedTuple):
    """What an action is about: ``job``, ``queue`` or ``recurring`` with its id or name; no id for a whole page."""

    kind: str
    id: str | None = None


@runtime_checkable
class Policy(Protocol):
    """What a host implements. Every method is called inside the request.

    It may also have ``links()``, which returns labels and addresses (``Link``) for the top of every page: a way back to
    the host, its logout. An address is http, https, or a path of the host's.
    """

    def actor(self) -> Any:
        """Who is asking, or None for nobody; ``str()`` of it is written to the audit trail."""

    def can(self, actor: Any, action: str, resource: Resource) -> bool:
        """Whether the actor may do this. Never decide by the remote address or by forwarded headers."""

    def scope(self, actor: Any) -> Iterable[str] | None:
        """The queues whose jobs the actor sees; None for all of them.

        Of workers it shows those that take from these queues, but not for commands: they may take from others, too.
        Deploys, locks, limits and the audit trail belong to no queue: an actor with a scope does not see them, whatever
        ``can`` says.
        """

    def on_unauthenticated(self) -> ResponseReturnValue:
        """The answer where ``actor`` found nobody: a redirect to the host's login, or a challenge.

        A policy that derives from this class and does not say answers 401.
        """
        return Response("Sign in to see this page.\n", 401, {"Content-Type": "text/plain; charset=utf-8"})


def checked(option: str, policy: object) -> Policy | None:
    """The policy of this option; ``InvalidOption`` says what is missing, where every request would fail later."""
    if isinstance(policy, type):
        raise InvalidOption(f"{option}={policy.__name__} is a class: pass {policy.__name__}()", field=option)
    missing = [name for name in _METHODS if not callable(getattr(policy, name, None))]
    if policy is not None and missing:
        lacks = " and no ".join(f"{name}()" for name in missing)
        raise InvalidOption(f"{option}: {type(policy).__name__} has no {lacks}; see webui.Policy", field=option)
    return cast("Policy | None", policy)


def queues_of(scope: object) -> tuple[str, ...] | None:
    """The queues of a scope, in order; None for all. ``TypeError`` for a text, whose letters nobody means."""
    if scope is None:
        return None
    if isinstance(scope, str | bytes) or not isinstance(scope, Iterable):
        raise TypeError(f"a scope is a list of queues, such as ('emails',), or None for all of them; not {scope!r}")
    return tuple(sorted(scope))


class Link(NamedTuple):
    """A way out of these pages: back to the host, or its logout."""

    label: str
    url: str


def links_of(policy: Policy | None) -> tuple[Link, ...]:
    """The links of a policy that has some. An address of another kind is left out, and logged."""
    given: Callable[[], Iterable[tuple[str, str]]] = getattr(policy, "links", tuple)
    links = [Link(str(label).strip()[:_LABEL], str(url)) for label, url in given()]
    for link in links:
        if not _leads_out(link):
            log.warning("the policy's link %r is left out: its address must be http, https or a path", link.label)
    return tuple(link for link in links if _leads_out(link))[:_LINKS]


def _leads_out(link: Link) -> bool:
    try:
        parts = urlsplit(link.url)
    except ValueError:
        return False
    plain = link.url.isprintable() and not any(character in link.url for character in " \\")
    elsewhere = parts.scheme in ("http", "https") and bool(parts.netloc)
    here = not parts.scheme and not parts.netloc and bool(parts.path) and not link.url.startswith("//")
    return bool(link.label) and plain and (elsewhere or here)


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
    """One user with a password, over HTTP Basic. Compared in constant time; failed tries are throttled.

    After ten wrong passwords in a minute an address is refused for the rest of it. One try in two seconds is looked at
    all the same, so that the right password comes in and guessing stays slow. A browser that has signed in before is
    exempt, so that nobody is locked out by others: its own tries are counted instead.
    """

    def __init__(self, username: str, password: str, *, realm: str = "sloppyjobs") -> None:
        if not username or not password:
            raise ValueError("BasicAuthPolicy needs a username and a password that are not empty")
        self._username = username
        self._password = password
        self._realm = realm
        self.throttle = Throttle("password")
        self._browsers = LocalThrottle()

    def actor(self) -> Any:
        """The user, when the password is right and tries are not throttled."""
        given = request.authorization
        if given is None or given.type != "basic":
            return None
        right_name = _same(given.username or "", self._username)
        right_password = _same(given.password or "", self._password)
        return self._username if self._admitted(right_name and right_password) else None

    def _admitted(self, right: bool) -> bool:
        client = network(request.remote_addr)
        browser = session.get(_BROWSER) if security.has_secret() else None
        if isinstance(browser, str):
            if right and not self._browsers.closed(browser):
                return True
            if not right:
                self._browsers.failed(browser)
        if self.throttle.refuses(client):
            return False
        if not right:
            self.throttle.failed(client)
        elif browser is None and security.has_secret():
            session[_BROWSER] = secrets.token_hex(8)
        return right

    def can(self, actor: Any, action: str, resource: Resource) -> bool:
        """The one user may do everything."""
        return True

    def scope(self, actor: Any) -> Iterable[str] | None:
        """Everything."""
        return None

    def on_unauthenticated(self) -> ResponseReturnValue:
        """The browser's own login, or 429 after too many wrong passwords."""
        wait = self.throttle.closed(network(request.remote_addr))
        if wait:
            return Response("Too many wrong passwords; wait and try again.\n", 429, {"Retry-After": str(wait)})
        challenge = f'Basic realm="{self._realm}", charset="UTF-8"'
        return Response("A user name and a password are needed.\n", 401, {"WWW-Authenticate": challenge})


class TokenPolicy:
    """Bearer tokens for ``/api/v1`` and ``/metrics``: a token for each name; the name is the actor.

    After ten wrong tokens in a minute an address is refused for the rest of it, but for one try in two seconds. A right
    token of 32 characters or more is always let in: it cannot be guessed, and a script with an old token must not lock
    out its neighbours.
    """

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
        self.throttle = Throttle("token")
        self._can = can
        self._scope = queues_of(scope)

    def actor(self) -> Any:
        """The name of the token that was sent."""
        given = security.bearer()
        if given is None:
            return None
        # Every token is compared, so that the time does not say which one came close.
        found = [name for name, token in self._tokens.items() if _same(given, token)]
        if found and len(given) >= NOT_GUESSED:
            return found[0]
        client = network(request.remote_addr)
        if self.throttle.refuses(client):
            return None
        if not found:
            self.throttle.failed(client)
        return found[0] if found else None

    def can(self, actor: Any, action: str, resource: Resource) -> bool:
        """What the given function says; everything without one."""
        return True if self._can is None else self._can(actor, action, resource)

    def scope(self, actor: Any) -> Iterable[str] | None:
        """The given queues."""
        return self._scope

    def on_unauthenticated(self) -> ResponseReturnValue:
        """A challenge, or 429 after too many wrong tokens."""
        wait = self.throttle.closed(network(request.remote_addr))
        if wait:
            return Response("Too many wrong tokens; wait and try again.\n", 429, {"Retry-After": str(wait)})
        return Response("A bearer token is needed.\n", 401, {"WWW-Authenticate": security.CHALLENGE})


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass"))
