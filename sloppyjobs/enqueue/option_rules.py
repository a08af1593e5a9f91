"""What can be asked for when a job is enqueued: each option, how it is checked, and the terms that it sets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sloppyjobs.domain import limits, options, payload
from sloppyjobs.domain.business_keys import ON_CONFLICT, UNIQUE
from sloppyjobs.domain.dependencies import dependencies
from sloppyjobs.domain.payload import stored_version, version_of
from sloppyjobs.domain.retry import Retry
from sloppyjobs.domain.tags import encode_tags
from sloppyjobs.errors import InvalidOption
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


def _tags(value: object, _fields: Fields) -> Fields:
    return {"tags": encode_tags(value)}


def _tags_of_many(values: Sequence[Any], _fields: Fields) -> Sequence[str | None] | None:
    """Each different list of tags once."""
    if not {tuple, list}.issuperset(map(type, values)):
        return None
    given = list(map(tuple, values))
    if any(type(tag) is not str for tags in given for tag in tags):
        return None
    known = {tags: encode_tags(tags) for tags in set(given)}
    return [known[tags] for tags in given]


def _partition(value: object, _fields: Fields) -> Fields:
    return {"partition_key": limits.partition("partition", value)}


def _version(value: object, fields: Fields) -> Fields:
    """The version of this payload, up to that of the definition."""
    newest = version_of(fields["payload_version"])
    return {"payload_version": stored_version(options.whole("version", value, least=1, most=newest))}


OF_KEYS = ("on_conflict", "unique", "unique_for")
"""Options that say something of a business key."""


def refuse_together(chosen: Collection[str]) -> None:
    """Raise ``InvalidOption`` for options that exclude each other, and for those that need another one."""
    if "delay" in chosen and "run_at" in chosen:
        raise InvalidOption("delay and run_at exclude each other: pass one of them")
    if "depends_on_any" in chosen and "depends_on" not in chosen:
        raise InvalidOption(
            "depends_on_any says something of dependencies: pass depends_on as well", field="depends_on_any"
        )
    alone = next((option for option in OF_KEYS if option in chosen), None)
    if alone is not None and "business_key" not in chosen:
        raise InvalidOption(f"{alone} says something of a business key: pass business_key as well", field=alone)


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
    "depends_on": _checked("depends_on", lambda _option, value: dependencies(value)),
    "depends_on_any": _checked("depends_on_any", lambda option, value: options.one_of(option, value, (True, False))),
    "tags": Option(_tags, _tags_of_many),
    "version": Option(_version),
    "expires": _checked("expires", lambda option, value: options.seconds(option, value, zero=False)),
    "business_key": _key("business_key"),
    "on_conflict": _checked("on_conflict", lambda option, value: options.one_of(option, value, ON_CONFLICT)),
    "unique": _checked("unique", lambda option, value: options.one_of(option, value, UNIQUE)),
    "unique_for": _checked("unique_for", lambda option, value: options.seconds(option, value, zero=False)),
    "resource": _checked("resource", limits.resource),
    "partition": Option(_partition),
}
