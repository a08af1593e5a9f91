"""A batch of settlements as the arrays that the set-based statements of PostgreSQL take."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import Failure, Status, event_type
from sloppyjobs.storage.dialects.postgres.arrays import Texts
from sloppyjobs.storage.dialects.postgres.statements import array_text
from sloppyjobs.storage.jobs.counters import shard_of

SUCCEEDED = (Status.SUCCEEDED,)


def only_successes(settlements: Sequence[Settlement]) -> bool:
    """Whether the lean statement is enough."""
    return all(one.decision.path == SUCCEEDED for one in settlements)


def successes(ordered: Sequence[Settlement]) -> dict[str, Any]:
    """What both statements take; ``ordered`` is by job, and of one worker."""
    owner = ordered[0].worker_id
    results = [one.decision.result for one in ordered]
    return {
        "ids": array_text([one.job_id for one in ordered]),
        "attempts": array_text([str(one.attempt) for one in ordered]),
        # Whole numbers, because the text of a fraction takes long to find.
        "microseconds": array_text(
            ["null" if one.run_seconds is None else str(int(one.run_seconds * 1e6)) for one in ordered]
        ),
        "results": Texts(results) if any(results) else array_text(["null"] * len(results)),
        "worker": owner,
        "shard": shard_of(owner),
    }


def mixed(ordered: Sequence[Settlement]) -> dict[str, Any]:
    """What the statement for any mixture takes."""
    decisions = [one.decision for one in ordered]
    words = [_words(decision.path) for decision in decisions]
    failures = [decision.failure or _NONE for decision in decisions]
    return {
        **successes(ordered),
        "vias": array_text([word[0] for word in words]),
        "targets": array_text([word[1] for word in words]),
        "events": array_text([word[2] for word in words]),
        "ends": array_text([decision.attempt.value for decision in decisions]),
        "delays": array_text([repr(one.delay) if one.path[-1] is Status.RETRYING else "null" for one in decisions]),
        "extras": array_text(["0" if decision.counts else "1" for decision in decisions]),
        "codes": Texts(failure.code or None for failure in failures),
        "types": Texts(failure.type for failure in failures),
        "messages": Texts(None if failure is _NONE else failure.message for failure in failures),
        "frames": Texts(failure.frame for failure in failures),
        "traces": Texts(failure.traceback for failure in failures),
        "reasons": Texts(decision.message for decision in decisions),
    }


_NONE = Failure("", "")


@lru_cache(maxsize=64)
def _words(path: tuple[Status, ...]) -> tuple[str, str, str]:
    """The status on the way, if there is one, the last one, and the event that records the last edge."""
    source, target = (Status.PROCESSING, *path)[-2:]
    return "null" if len(path) == 1 else source.value, target.value, event_type(source, target)
