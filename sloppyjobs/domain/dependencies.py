"""Jobs that wait for other jobs. What an edge means, and when a job may start, as pure functions of values."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

import msgspec

from sloppyjobs.domain import options, payload
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.states import Status
from sloppyjobs.errors import InvalidOption, InvalidPayload, InvalidWorkflow

ON = ("success", "failure", "always")
"""Which end of a parent meets an edge."""
MOST_PARENTS = 1000
"""Jobs that one job may wait for."""

_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_ABSENT = object()
_PLAIN = (str, int, float, bool, type(None))
_BAD_ESCAPE = re.compile(r"~(?![01])")
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)


class Result(msgspec.Struct, frozen=True, array_like=True):
    """A comparison with a parent's result: ``Result("/rows", ">", 0)``. The path is a JSON pointer; "" is the whole.

    Values are compared as JSON has them: ``true`` is not 1, and only numbers or texts are greater than one another.
    """

    path: str
    compare: str
    value: str | int | float | bool | None  # a decoder of floats alone rounds

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or (self.path and not self.path.startswith("/")):
            raise options.refuse(
                "path", self.path, 'must be a JSON pointer, such as "/rows", or "" for the whole result'
            )
        options.one_of("compare", self.compare, _COMPARE)
        if not isinstance(self.value, str | int | float | bool | None):
            raise options.refuse("value", self.value, "must be text, a number, a boolean or None")
        try:
            written = payload.encode(self.value, what="value")
        except InvalidPayload as error:
            # NaN would be stored as null, and then another comparison is made.
            raise options.refuse("value", self.value, error.reason or "must be JSON") from None
        # Of a subclass, what is compared is what can be written.
        if type(self.path) is not str:
            msgspec.structs.force_setattr(self, "path", str.__str__(self.path))
        if type(self.compare) is not str:
            msgspec.structs.force_setattr(self, "compare", str.__str__(self.compare))
        if type(self.value) not in _PLAIN:
            msgspec.structs.force_setattr(self, "value", payload.decode(written))

    def keys(self) -> list[str]:
        """The keys and indexes that the path names, from the outside in."""
        return [part.replace("~1", "/").replace("~0", "~") for part in self.path.split("/")[1:]]

    def holds(self, result: Any) -> bool:
        """Whether a result is so; one without such a value, or with one that cannot be compared, is not."""
        found = _at(result, self.keys())
        if found is _ABSENT:
            return False
        if isinstance(found, bool) is not isinstance(self.value, bool):
            return self.compare == "!="
        try:
            return bool(_COMPARE[self.compare](found, self.value))
        except TypeError:
            return False


class FlowJob:
    """A job of a workflow that is being put together; ``id`` is that of the job which is written at its end."""

    __slots__ = ("flow_id", "id", "name")

    def __init__(self, id: str, name: str, flow_id: str) -> None:
        self.id = id
        self.name = name
        self.flow_id = flow_id

    def __repr__(self) -> str:
        return f"<{self.name} {self.id} of {self.flow_id}>"


class After(msgspec.Struct, frozen=True):
    """A job to wait for, and how it must have ended: ``After(job, on="failure")``, ``After(job, when=Result(…))``."""

    job: Job[Any] | FlowJob | str
    on: str = "success"
    when: Result | None = None


class Dependency(msgspec.Struct, frozen=True):
    """One edge: the parent, which of its ends meets the edge, and what its result must be."""

    parent_id: str
    on: str
    when: Result | None = None


class EdgeState(IntEnum):
    """Whether a parent has ended as its child needs it."""

    OPEN = 0
    MET = 1
    FAILED = 2
    """It has ended otherwise, and will not end again."""


_OPEN, _MET, _FAILED = map(int, EdgeState)


class Readiness(IntEnum):
    """What the edges of a job say together."""

    WAITING = 0
    READY = 1
    IMPOSSIBLE = 2


def dependencies(value: object) -> tuple[Dependency, ...]:
    """The option ``depends_on``: jobs, ids, or ``After``; one or several."""
    given = [value] if isinstance(value, str | Job | FlowJob | After) else value
    if not isinstance(given, list | tuple | set | frozenset):
        raise options.refuse("depends_on", value, "must be jobs, their ids, or After(job, on=…)")
    found = {one.parent_id: one for one in map(_dependency, given)}
    if len(found) < len(given):
        raise options.refuse("depends_on", f"{len(given)} jobs", "names a job twice")
    if len(found) > MOST_PARENTS:
        raise InvalidWorkflow(f"depends_on names {len(found):,} jobs; a job may wait for {MOST_PARENTS:,} at most")
    return tuple(found.values())


def _dependency(value: object) -> Dependency:
    after = value if isinstance(value, After) else After(value)  # type: ignore[arg-type]
    parent = after.job.id if isinstance(after.job, Job | FlowJob) else after.job
    if not isinstance(parent, str) or not parent:
        raise options.refuse("depends_on", parent, "must be a job, its id, or After(job, on=…)")
    on = options.one_of("on", after.on, ON)
    if after.when is not None:
        if not isinstance(after.when, Result):
            raise options.refuse("when", after.when, 'must be a comparison, such as Result("/rows", ">", 0)')
        if _BAD_ESCAPE.search(after.when.path):
            # Not where it is made: a comparison that was stored is made again, and must never be refused.
            raise options.refuse("path", after.when.path, "must have ~ as ~0 and / as ~1, or it names no key")
        if after.on != "success":
            raise options.refuse("when", after.when, "compares a result, which only a job that succeeded has")
    return Dependency(options.text("depends_on", parent), on, after.when)


def comparison(stored: str | None) -> Result | None:
    """What is asked of the result of a parent; None where that is nothing, or cannot be read."""
    try:
        return None if stored is None else msgspec.json.decode(stored, type=Result)
    except (msgspec.MsgspecError, UnicodeError, InvalidOption):
        return None


def edge_state(edge: Dependency, status: Status | None, result: Any) -> EdgeState:
    """What an edge is when its parent has this status, or was removed, and this result.

    A dead parent holds: an operator may retry it. One that is cancelled or deleted will not succeed any more.
    """
    match status:
        case Status.SUCCEEDED:
            if edge.on == "failure" or (edge.when is not None and not edge.when.holds(result)):
                return EdgeState.FAILED
            return EdgeState.MET
        case Status.DEAD:
            return EdgeState.OPEN if edge.on == "success" else EdgeState.MET
        case Status.CANCELLED | Status.DELETED | None:
            return EdgeState.FAILED if edge.on == "success" else EdgeState.MET
    return EdgeState.OPEN


def readiness(numbers: Mapping[int, int], *, any_parent: bool) -> Readiness:
    """Whether a job may start, by how many of its edges are in which state."""
    is_open, met, failed = numbers.get(_OPEN, 0), numbers.get(_MET, 0), numbers.get(_FAILED, 0)
    if any_parent:
        return Readiness.READY if met else Readiness.WAITING if is_open else Readiness.IMPOSSIBLE
    return Readiness.IMPOSSIBLE if failed else Readiness.WAITING if is_open else Readiness.READY


def _at(value: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and _INDEX.fullmatch(key) and int(key) < len(value):
            value = value[int(key)]
        else:
            return _ABSENT
    return value
