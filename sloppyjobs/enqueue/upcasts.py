"""Payloads of older versions: each upcast turns a payload of one version into one of the next. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from sloppyjobs.domain import options, payload
from sloppyjobs.domain.payload import version_of
from sloppyjobs.errors import DuplicateJob, PayloadNewer, UpcastFailed

Upcast = Callable[[Any], Any]
"""Takes the payload as JSON has it, and returns that of the next version."""
U = TypeVar("U", bound=Upcast)
MOST = 1_000_000
"""The highest version."""


class Versioned(Protocol):
    """What a definition says of the versions of its payloads."""

    name: str
    version: int
    upcasts: dict[int, Upcast]


class Upcasts:
    """The upcasts of one ``Jobs``, by the name of the job and the version that they start from."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[int, Upcast]] = {}

    def of(self, name: str) -> dict[int, Upcast]:
        """Those of a job; those that are registered later are in it too."""
        return self._by_name.setdefault(name, {})

    def add(self, name: object, version: object, function: Upcast) -> None:
        """Take an upcast in. ``InvalidOption`` where it cannot work, ``DuplicateJob`` where there is one already."""
        known = self.of(options.text("name", name))
        start = options.whole("version", version, least=1, most=MOST - 1)
        _check(name, function)
        if start in known:
            raise DuplicateJob(f"{name!r} has an upcast from version {start} already; a version needs one")
        known[start] = function

    def __iter__(self) -> Iterator[tuple[str, Mapping[int, Upcast]]]:
        return iter([(name, known) for name, known in self._by_name.items() if known])


def upcast(value: Any, written: int | None, definition: Versioned) -> Any:
    """A payload of the version that its row says, as the definition's version has it.

    ``UpcastFailed`` where a link of the chain is missing or fails, ``PayloadNewer`` where this code is too old for it.
    """
    version = version_of(written)
    if version > definition.version:
        raise PayloadNewer(
            f"the payload is of version {version}, and the code here knows {definition.name!r} up to version "
            f"{definition.version}: it is left for a worker with newer code"
        )
    for start in range(version, definition.version):
        function = definition.upcasts.get(start)
        if function is None:
            raise UpcastFailed(
                f"the payload is of version {version}, and {definition.name!r} has no upcast from version {start} to "
                f"{start + 1}: register one with @jobs.upcast({definition.name!r}, {start}), and retry the job"
            )
        value = _applied(function, value, start)
    return value


def _applied(function: Upcast, value: Any, start: int) -> Any:
    step = f"the upcast from version {start} to {start + 1}"
    try:
        found = function(value)
    except BaseException as error:
        why = payload.clean_text(error, 1_000)
        raise UpcastFailed(f"{step} raised {payload.class_name(type(error))}: {why}") from error
    if found is None and value is not None:
        raise UpcastFailed(f"{step} returned None; it must return the payload of version {start + 1}")
    return found


def problems(definition: Versioned) -> Iterator[str]:
    """What is wrong with the upcasts of a definition: links that are missing, and some that nothing leads to.

    A chain may begin late: there may be no payloads of the first versions any more.
    """
    starts = sorted(definition.upcasts)
    missing = [
        start
        for start in range(starts[0] if starts else definition.version - 1, definition.version)
        if start >= 1 and start not in definition.upcasts
    ]
    for start in missing:
        yield (
            f"{definition.name!r} is at version {definition.version} and has no upcast from version {start}: payloads "
            f"of version {start} or older will be dead at once"
        )
    for start in starts:
        if start >= definition.version:
            yield (
                f"{definition.name!r} is at version {definition.version}; its upcast from version {start} is never used"
            )


def check_portable(name: str, function: Upcast) -> None:
    """Another process gets an upcast by its name; ``InvalidOption`` where that cannot be."""
    where = getattr(function, "__qualname__", "<locals>")
    if "<" in where or not getattr(function, "__module__", None):
        wanted = f"isolation='process' of {name!r} needs its upcasts to be functions at the top of a module"
        raise options.refuse("upcast", where, wanted)


def _check(name: object, function: object) -> None:
    if not callable(function):
        raise options.refuse("upcast", function, "must be a function (payload) that returns the next version's payload")
    if inspect.iscoroutinefunction(function):
        raise options.refuse("upcast", function, f"the upcast of {name!r} must be a plain function, not a coroutine")
    try:
        inspect.signature(function).bind("payload")
    except TypeError:
        raise options.refuse(
            "upcast", function, f"the upcast of {name!r} is called with one argument: the payload"
        ) from None
    except ValueError:
        return  # some builtins do not tell
