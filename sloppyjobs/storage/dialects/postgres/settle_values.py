"""A batch of settlements as the arrays that the set-based statements of PostgreSQL take."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import Decision, Status
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


def parts(settlements: Sequence[Settlement]) -> list[Part]:
    """The settlements by what hangs on their jobs, successes apart from all others, as far as there are any.

    Those that no statement can write are in none of the parts.
    """
    if all(one.decision.path == SUCCEEDED and one.followups is None and one.batch_id is None for one in settlements):
        return [Part(Hanging.NOTHING, True, settlements)]
    found: dict[tuple[Hanging, bool], list[Settlement]] = {}
    for one in settlements:
        if (kind := _hanging(one)) is not None:
            found.setdefault((kind, one.decision.path == SUCCEEDED), []).append(one)
    # Successes first: a connection that breaks at the failures must not take them along.
    return [Part(*key, found[key]) for key in sorted(found, key=lambda key: (key[0], not key[1]))]


def _hanging(one: Settlement) -> Hanging | None:
    return _hanging_by(one.followups or (0 if one.batch_id is None else _BATCH))


@lru_cache(maxsize=256)
def _hanging_by(bits: int) -> Hanging | None:
    for kind, accepted in _ACCEPTED:
        if not bits & ~accepted:
            return kind
    return None


def batches(settlements: Sequence[Settlement]) -> list[str]:
    """The batches that the jobs belong to."""
    return sorted({one.batch_id for one in settlements if one.batch_id is not None})


def limited(settlements: Sequence[Settlement]) -> list[str]:
    """The jobs that had permits."""
    return [one.job_id for one in settlements if one.followups and one.followups & _PERMIT]


def successes(ordered: Sequence[Settlement]) -> dict[str, Any]:
    """What the statement for successes takes; ``ordered`` is by job, and of one worker."""
    results = [one.decision.result for one in ordered]
    return _attempts(ordered) | {"results": Texts(results) if any(results) else array_text(["null"] * len(results))}


def others(ordered: Sequence[Settlement]) -> dict[str, Any]:
    """What the statement for all other outcomes takes."""
    paths = {path: number for number, path in enumerate({one.decision.path: None for one in ordered})}
    numbers = [str(paths[one.decision.path]) for one in ordered]
    targets, ends, delays, extras, *texts = zip(*(_row(one.decision) for one in ordered), strict=True)
    edges = [(str(number), *edge) for path, number in paths.items() for edge in edges_of(path)]
    return {
        **_attempts(ordered),
        "paths": array_text(numbers),
        **{name: array_text(values) for name, values in zip(_EDGES, zip(*edges, strict=True), strict=True)},
        "targets": array_text(targets),
        "ends": array_text(ends),
        "delays": array_text(delays),
        "extras": array_text(extras),
        **{name: Texts(values) for name, values in zip(_TEXTS, texts, strict=True)},
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
_TEXTS = ("codes", "types", "messages", "frames", "traces", "reasons")


def _row(decision: Decision) -> tuple[str | None, ...]:
    """What ``others`` says of one attempt."""
    failure = decision.failure
    texts = (
        (None,) * 5
        if failure is None
        else (failure.code or None, failure.type, failure.message, failure.frame, failure.traceback)
    )
    target, delay = decision.path[-1].value, repr(decision.delay) if decision.retries else "null"
    return target, decision.attempt.value, delay, "0" if decision.counts else "1", *texts, decision.message
