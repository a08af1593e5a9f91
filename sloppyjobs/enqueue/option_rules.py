"""What can be asked for when a job is enqueued: each option, how it is checked, and the terms that it sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sloppyjobs.domain import options, payload
from sloppyjobs.domain.retry import Retry
from sloppyjobs.observe import traces

METADATA_LIMIT = 65_536

Fields = Mapping[str, Any]


class Option(NamedTuple):
    """``read(value, fields)`` answers with the terms that a value sets, in place of ``fields``, or raises.

    ``many``, where there is one, reads many values at once into those of the term that is named like the option; it
    answers None where they must be read one by one.
    """

    read: Callable[[Any, Fields], Fields]
    many: Callable[[Sequence[Any], Fields], Sequence[Any] | None] | None = None


def _checked(option: str, check: Callable[[str, Any], Any]) -> Option:
    return Option(lambda value, _fields: {option: check(option, value)})


def _key(option: str) -> Option:
    """Keys mostly differ from job to job, so that it pays to look at all of them at once."""
    alone = _checked(option, options.key)
    return Option(alone.read, lambda values, _fields: values if options.are_plain_keys(values) else None)


def _retry(retry: object, _fields: Fields) -> Fields:
    if not isinstance(retry, Retry):
        raise options.refuse("retry", retry, "must be a Retry, such as Retry(max_attempts=5)")
    if callable(retry.backoff):
        raise options.refuse("retry", retry, "a callable backoff can only be given to define, not to one job")
    return {"retry_policy": None if retry.is_default else retry.to_json(), "max_attempts": retry.max_attempts}


def _max_attempts(value: object, _fields: Fields) -> Fields:
    return {"max_attempts": options.whole("max_attempts", value, least=1, most=1_000_000)}


def _metadata(value: object, fields: Fields) -> Fields:
    if not isinstance(value, Mapping):
        raise options.refuse("metadata", value, "must be a mapping")
    merged = dict(value)
    if traces.TRACE in merged:
        raise options.refuse("metadata", value, f"the key {traces.TRACE!r} is reserved")
    if fields["metadata"] is not None:
        merged = {**payload.decode(fields["metadata"]), **merged}
    return {"metadata": payload.encode(merged, what="metadata", limit=METADATA_LIMIT)}


def _metadata_of_many(values: Sequence[Any], fields: Fields) -> Sequence[str] | None:
    texts = payload.encode_flat(values, METADATA_LIMIT) if fields["metadata"] is None else None
    return None if texts is None or any(traces.TRACE in value for value in values) else texts


# In this order: an explicit max_attempts wins over the policy's.
OPTIONS: dict[str, Option] = {
    "queue": _checked("queue", options.queue),
    "priority": _checked("priority", options.whole),
    "delay": _checked("delay", options.seconds),
    "run_at": _checked("run_at", options.instant),
    "idempotency_key": _key("idempotency_key"),
    "retry": Option(_retry),
    "max_attempts": Option(_max_attempts),
    "timeout": _checked("timeout", lambda option, value: options.seconds(option, value, zero=False)),
    "correlation_id": _key("correlation_id"),
    "metadata": Option(_metadata, _metadata_of_many),
    "principal": _key("principal"),
}
