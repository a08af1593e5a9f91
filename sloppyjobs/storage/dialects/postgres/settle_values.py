"""A batch of settlements as the arrays that the set-based statements of PostgreSQL take."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.dialects.postgres.arrays import Texts
from sloppyjobs.storage.dialects.postgres.graph_statements import ACCEPTED
from sloppyjobs.storage.dialects.postgres.settle_statements import Hanging
from sloppyjobs.storage.dialects.postgres.statements import array_text
from sloppyjobs.storage.jobs.settle import shard_of
from sloppyjobs.storage.jobs.settlement_sql import edges_of

SUCCEEDED = (Status.SUCCEEDED,)
_ACCEPTED = (
    (Hanging.NOTHING, 0),
    (Hanging.BATCH, int(Followup.BATCH)),
    (Hanging.GRAPH, int(ACCEPTED)),
    (Hanging.LIMIT, int(Followup.PERMIT)),
    (Hanging.BATCH_AND_LIMIT, int(Followup.BATCH | Followup.PERMIT)),
)
"""What may hang on jobs of each kind, as plain numbers; the first one that fits is taken."""
_BATCH, _PERMIT = int(Followup.BATCH), int(Followup.PERMIT)


class Part(NamedTuple):
    """Settlements that one statement can write."""

    hanging: Hanging
    success: bool
    settlements: Sequence[Settlement]


class Split(NamedTuple):
    """Settlements by the statements that can write them, and what is asked when they are written."""

    parts: Sequence[Part]
    batches: Sequence[str] = ()
    """The batches that the jobs belong to."""
    limited: Sequence[str] = ()
    """The jobs that had permits."""

    def parents(self) -> int | None:
        """The place of the part whose statement can claim children."""
        return next((place for place, part in enumerate(self.parts) if part[:2] == (Hanging.GRAPH, True)), None)


def split(settlements: Sequence[Settlement]) -> Split:
    """The settlements by what hangs on their jobs, successes apart from all others, as far as there are any.

    Those that no statement can write are in none of the parts.
    """
    if all(one.decision.path == SUCCEEDED and one.followups is None and one.batch_id is None for one in settlements):
        return Split([Part(Hanging.NOTHING, True, settlements)])
    found: dict[tuple[Hanging, bool], list[Settlement]] = {}
    for one in settlements:
        if (kind := _hanging(one)) is not None:
            found.setdefault((kind, one.decision.path == SUCCEEDED), []).append(one)
    # Successes first: a connection that breaks at the failures must not take them along.
    parts = [Part(*key, found[key]) for key in sorted(found, key=lambda key: (key[0], not key[1]))]
    batches = sorted({one.batch_id for one in settlements if one.batch_id is not None})
    return Split(parts, batches, [one.job_id for one in settlements if one.followups and one.followups & _PERMIT])


def _hanging(one: Settlement) -> Hanging | None:
    return _hanging_by(one.followups or (0 if one.batch_id is None else _BATCH))


@lru_cache(maxsize=256)
def _hanging_by(bits: int) -> Hanging | None:
    for kind, accepted in _ACCEPTED:
        if not bits & ~accepted:
            return kind
    return None


def successes(ordered: Sequence[Settlement]) -> dict[str, Any]:
    """What the statement for successes takes; ``ordered`` is by job, and of one worker."""
    results = [one.decision.result for one in ordered]
    return _attempts(ordered) | {"results": Texts(results) if any(results) else array_text(["null"] * len(results))}


def others(ordered: Sequence[Settlement]) -> dict[str, Any]:
    """What the statement for all other outcomes takes; what many of them share, once for each kind."""
    kinds: dict[tuple[Any, ...], tuple[str, bool]] = {}
    rows = []
    for one in ordered:
        decision = one.decision
        failure = decision.failure
        if failure is None:
            key: tuple[Any, ...] = (decision.path, decision.attempt, decision.counts, "f", None, None, None)
            message, trace = decision.message, None
        else:
            shared = failure.code or None, failure.type, failure.frame
            key = (decision.path, decision.attempt, decision.counts, "t", *shared)
            message, trace = failure.message, failure.traceback
        found = kinds.get(key)
        if found is None:
            found = kinds[key] = str(len(kinds) + 1), decision.retries
        number, retries = found
        rows.append((number, repr(decision.delay) if retries else "null", message, trace))
    numbers, delays, messages, traces = zip(*rows, strict=True)
    return {
        **_attempts(ordered),
        "kinds": array_text(numbers),
        "delays": array_text(delays),
        "messages": Texts(messages),
        "traces": Texts(traces),
        **_kinds(list(kinds)),
    }


def _kinds(kinds: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """What jobs that ended alike share, and the edges of their paths."""
    paths, ends, counted, failed, codes, types, frames = zip(*kinds, strict=True)
    numbers = {path: str(number) for number, path in enumerate(dict.fromkeys(paths))}
    edges = [(number, *edge) for path, number in numbers.items() for edge in edges_of(path)]
    return {
        "paths": array_text([numbers[path] for path in paths]),
        "targets": array_text([path[-1].value for path in paths]),
        "ends": array_text([one.value for one in ends]),
        "extras": array_text(["0" if one else "1" for one in counted]),
        "failed": array_text(failed),
        "codes": Texts(codes),
        "types": Texts(types),
        "frames": Texts(frames),
        **{name: array_text(values) for name, values in zip(_EDGES, zip(*edges, strict=True), strict=True)},
    }


def _attempts(ordered: Sequence[Settlement]) -> dict[str, Any]:
    """Which attempts ended, whose they are, and how long their handlers ran."""
    owner = ordered[0].worker_id
    return {
        "ids": array_text([one.job_id for one in ordered]),
        "attempts": array_text([str(one.attempt) for one in ordered]),
        # Whole numbers, because the text of a fraction takes long to find.
        "microseconds": array_text(
            ["null" if one.run_seconds is None else str(int(one.run_seconds * 1e6)) for one in ordered]
        ),
        "worker": owner,
        "shard": shard_of(owner),
    }


_EDGES = ("edge_paths", "edge_events", "edge_sources", "edge_targets")
