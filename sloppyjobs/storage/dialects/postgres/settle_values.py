"""A batch of settlements as the arrays that the set-based statements of PostgreSQL take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import Decision, Status
from sloppyjobs.storage.dialects.postgres.arrays import Texts
from sloppyjobs.storage.dialects.postgres.statements import array_text
from sloppyjobs.storage.jobs.counters import shard_of
from sloppyjobs.storage.jobs.settlement_sql import edges_of

SUCCEEDED = (Status.SUCCEEDED,)


def is_success(settlement: Settlement) -> bool:
    """Whether the attempt went well; such attempts are settled by a leaner statement."""
    return settlement.decision.path == SUCCEEDED


def parts(settlements: Sequence[Settlement]) -> list[Sequence[Settlement]]:
    """The successes and all others, those of batches apart, as far as there are any."""
    if all(one.decision.path == SUCCEEDED and one.batch_id is None for one in settlements):
        return [settlements]
    found: dict[tuple[bool, bool], list[Settlement]] = {}
    for one in settlements:
        found.setdefault((one.batch_id is not None, one.decision.path != SUCCEEDED), []).append(one)
    return [found[kind] for kind in sorted(found)]


def batches(settlements: Sequence[Settlement]) -> list[str]:
    """The batches that the jobs belong to."""
    return sorted({one.batch_id for one in settlements if one.batch_id is not None})


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
