"""What a job is: its name, its handler, and the defaults of its instances."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, Unpack, get_args, overload

from sloppyjobs import errors
from sloppyjobs.domain import limits, options, payload
from sloppyjobs.domain.model import DEFAULT_RETRY, Job
from sloppyjobs.domain.payload import stored_version
from sloppyjobs.domain.retry import Retry
from sloppyjobs.domain.tags import encode_tags
from sloppyjobs.enqueue.option_types import CallOptions
from sloppyjobs.enqueue.upcasts import MOST, Upcast, Upcasts, check_portable, problems

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar

    # A plain ``Definition`` is a ``Definition[Any, Any]``.
    P = TypeVar("P", contravariant=True, default=Any)
    R = TypeVar("R", covariant=True, default=Any)
    Arguments = ParamSpec("Arguments", default=...)
    Answer = TypeVar("Answer", covariant=True, default=Any)
else:
    from typing import ParamSpec, TypeVar

    P = TypeVar("P", contravariant=True)
    R = TypeVar("R", covariant=True)
    Arguments = ParamSpec("Arguments")
    Answer = TypeVar("Answer", covariant=True)

T = TypeVar("T")

Handler = Callable[..., Any]
Isolation = Literal["thread", "async", "process"]
LogPolicy = Literal["all", "failures", "dead", "none"]


class Defaults(TypedDict, total=False):
    """What can be set for all instances of a job, besides what they take."""

    queue: str
    retry: Retry | None
    timeout: float | timedelta | None
    priority: int
    redact: Iterable[str]
    metadata: Mapping[str, Any] | None
    isolation: Isolation | None
    log: LogPolicy
    expires: float | timedelta | None
    tags: Iterable[str]
    resource: str | None
    partition: str | Callable[[Any], Any] | None
    version: int


class Settings(Defaults, total=False):
    """What can be set for all instances of a job."""

    input: Any


class Snooze:
    """Returned by a handler: call me again in ``seconds``; this attempt does not count."""

    def __init__(self, seconds: float) -> None:
        self.seconds = options.seconds("seconds", seconds)


class Cancel:
    """Returned by a handler: the job is not wanted any more."""

    def __init__(self, reason: str = "cancelled by its handler") -> None:
        self.reason = payload.clean_text(reason, 2_000)


class RetryLater(Exception):
    """Raised by a handler: this attempt failed; try again after so many seconds, if attempts are left."""

    def __init__(self, after: float, message: str = "the handler asked for a retry") -> None:
        super().__init__(message)
        self.after = options.seconds("after", after)


class Definition(Generic[P, R]):
    """A named job. Calling it calls the handler, so that handlers stay testable as functions.

    To type checkers it is a ``Definition[P, R]``: its payload is a ``P``, and its handler returns an ``R``.
    """

    @options.known_only("define", besides=("self", "handler", "enqueue"))
    def __init__(
        self,
        name: str,
        handler: Handler | None,
        enqueue: Callable[..., Job],
        *,
        queue: str = "default",
        input: Any = None,
        retry: Retry | None = None,
        timeout: float | timedelta | None = None,
        priority: int = 0,
        redact: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        isolation: Isolation | None = None,
        log: LogPolicy = "all",
        expires: float | timedelta | None = None,
        tags: Iterable[str] = (),
        resource: str | None = None,
        partition: str | Callable[[Any], Any] | None = None,
        version: int = 1,
    ) -> None:
        self.name = options.text("name", name)
        self.queue = options.queue("queue", queue)
        self.input = payload.checked_schema(input)
        self.retry = _policy(retry)
        self.timeout = None if timeout is None else options.seconds("timeout", timeout, zero=False)
        self.priority = options.whole("priority", priority)
        self.tags = encode_tags(tags)
        self.expires = None if expires is None else options.seconds("expires", expires, zero=False)
        self.resource = None if resource is None else limits.resource("resource", resource)
        self.partition = limits.checked_partition_of(partition)
        if self.partition is not None and self.resource is None:
            raise errors.InvalidOption(
                "partition says which part of a resource: pass resource as well", field="partition"
            )
        self.redact = _keys(redact)
        self.version = options.whole("version", version, least=1, most=MOST)
        self.stored_version = stored_version(self.version)
        self.upcasts: dict[int, Upcast] = {}
        extra = {} if metadata is None else options.mapping("metadata", metadata)
        self.metadata = payload.encode(dict(extra), what="metadata") if extra else None
        _check_arguments(name, handler)
        self.log: LogPolicy = options.one_of("log", log, get_args(LogPolicy))
        self.handler = handler
        self.isolation: Isolation = _isolation(name, handler, isolation)
        if self.isolation == "process":
            _check_portable(name, self.input, self.retry)
        self.retry_json = None if self.retry.is_default else self.retry.to_json()
        self.__doc__ = getattr(handler, "__doc__", None)
        self.__name__ = getattr(handler, "__name__", name)
        self.__wrapped__ = handler
        self._enqueue = enqueue

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the handler itself."""
        if self.handler is None:
            raise errors.UnknownJob(f"{self.name!r} is declared here and handled elsewhere; it cannot be called")
        return self.handler(*arguments, **named)

    # A job that has not succeeded has no result.
    @overload
    def enqueue(
        self: Definition[None, T | Snooze | Cancel], payload: None = None, **options: Unpack[CallOptions]
    ) -> Job[T | None]: ...
    @overload
    def enqueue(
        self: Definition[P, T | Snooze | Cancel], payload: P, **options: Unpack[CallOptions]
    ) -> Job[T | None]: ...

    def enqueue(self, payload: Any = None, **options: Any) -> Job:
        """Enqueue this job; the options are those of ``Jobs.enqueue``."""
        return self._enqueue(self.name, payload, **options)

    def __repr__(self) -> str:
        return f"<job {self.name!r} on {self.queue!r}>"


class Handled(Definition[P, R], Generic[P, R, Arguments, Answer]):
    """A job that is handled here: a call takes the handler's arguments, and answers what the handler answers."""

    if TYPE_CHECKING:

        def __call__(self, *arguments: Arguments.args, **named: Arguments.kwargs) -> Answer: ...


class Definitions:
    """Every definition of one ``Jobs``, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Definition] = {}
        self._handled: frozenset[str] = frozenset()
        self.upcasts = Upcasts()
        self.redactions: frozenset[tuple[str, str]] = frozenset()
        """The secret keys of every definition, each with the job's name."""

    def add(self, definition: Definition) -> None:
        """Take a definition in; a name that is taken raises ``DuplicateJob``."""
        known = self._by_name.get(definition.name)
        if known is not None and (known.handler is not None or definition.handler is None):
            raise errors.DuplicateJob(f"{definition.name!r} is defined already; every job needs a name of its own")
        definition.upcasts = self.upcasts.of(definition.name)
        self._check_upcasts(definition)
        self._by_name[definition.name] = definition
        if definition.handler is not None:
            self._handled |= {definition.name}
        self.redactions |= {(definition.name, key) for key in definition.redact}

    def add_upcast(self, name: str, version: int, function: Upcast) -> None:
        """Take an upcast in; ``InvalidOption`` where it cannot work, ``DuplicateJob`` where there is one already."""
        self.upcasts.add(name, version, function)
        if (definition := self._by_name.get(name)) is not None:
            self._check_upcasts(definition)

    @staticmethod
    def _check_upcasts(definition: Definition) -> None:
        if definition.isolation == "process":
            for function in definition.upcasts.values():
                check_portable(definition.name, function)

    def upcast_problems(self) -> Iterator[str]:
        """What is wrong with the upcasts of the jobs that are handled here."""
        for definition in self:
            if definition.handler is not None:
                yield from problems(definition)
        for name, _ in self.upcasts:
            if name not in self._by_name:
                yield f"there are upcasts of {name!r}, and no such job is defined here"

    def get(self, name: str) -> Definition | None:
        """The definition of that name, if there is one."""
        return self._by_name.get(name)

    def require(self, name: str) -> Definition:
        """The definition of that name, or ``UnknownJob`` saying what is known."""
        found = self._by_name.get(name) if isinstance(name, str) else None
        if found is None:
            known = ", ".join(sorted(self._by_name)[:20]) or "none yet"
            raise errors.UnknownJob(
                f"no job is defined as {options.shown(name)}; define it with @jobs.define, or "
                f"jobs.declare a job that is handled elsewhere. Known here: {known}"
            )
        return found

    def handled(self) -> frozenset[str]:
        """The names that have a handler here."""
        return self._handled

    def __iter__(self) -> Iterator[Definition]:
        return iter(list(self._by_name.values()))


def _policy(retry: Retry | None) -> Retry:
    if retry is None:
        return DEFAULT_RETRY
    if not isinstance(retry, Retry):
        raise options.refuse("retry", retry, "must be a Retry, such as Retry(max_attempts=5)")
    return retry


def _keys(redact: Iterable[str]) -> tuple[str, ...]:
    if isinstance(redact, str) or not isinstance(redact, Iterable):
        raise options.refuse("redact", redact, f"must be a list of keys, such as redact=({options.shown(redact)},)")
    return tuple(options.text("redact", key) for key in redact)


def _isolation(name: str, handler: Handler | None, wanted: Isolation | None) -> Isolation:
    if wanted is not None:
        wanted = options.one_of("isolation", wanted, ("thread", "async", "process"))
    if handler is None:
        return wanted or "thread"
    if not callable(handler):
        raise options.refuse("handler", handler, "must be a function or a coroutine function")
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise options.refuse("handler", handler, f"the handler of {name!r} has a yield: calling it would run nothing")
    is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - the method itself is looked at
    )
    natural: Isolation = "async" if is_async else "thread"
    if wanted is None:
        return natural
    if (wanted == "async") != is_async:
        kind = "a coroutine" if is_async else "a plain function"
        raise options.refuse("isolation", wanted, f"does not fit: the handler of {name!r} is {kind}")
    if wanted == "process":
        where = getattr(handler, "__qualname__", "<locals>")
        if "<" in where or not getattr(handler, "__module__", None):
            raise options.refuse(
                "isolation", wanted, f"the handler of {name!r} must be a function at the top of a module"
            )
    return wanted


def _check_arguments(name: str, handler: Handler | None) -> None:
    """A handler is called with two arguments; one that cannot take them would fail at every attempt."""
    if handler is None or not callable(handler):
        return
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):
        return  # some builtins do not tell
    try:
        signature.bind("ctx", "payload")
    except TypeError:
        called = getattr(handler, "__name__", "handler")
        raise options.refuse(
            "handler",
            f"{called}{signature}",
            f"the handler of {name!r} is called with two arguments: def {called}(ctx, payload)",
        ) from None


def _check_portable(name: str, input: Any, retry: Retry) -> None:
    """Another process gets the schema and a callable backoff by their names."""
    for option, value in (("input", input), ("backoff", retry.backoff)):
        try:
            pickle.dumps(value)
        except Exception as error:
            raise options.refuse(
                option, value, f"isolation='process' of {name!r} needs it at the top of a module: {error}"
            ) from error


def default_terms(definition: Definition) -> dict[str, Any]:
    """The terms of a new job that a definition decides."""
    return {
        "name": definition.name,
        "queue": definition.queue,
        "priority": definition.priority,
        "max_attempts": definition.retry.max_attempts,
        "retry_policy": definition.retry_json,
        "timeout": definition.timeout,
        "metadata": definition.metadata,
        "expires": definition.expires,
        "tags": definition.tags,
        "resource": definition.resource,
        "payload_version": definition.stored_version,
    }
