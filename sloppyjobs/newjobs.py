"""From what a caller asks for to a job that can be written: everything is checked here, before any database is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from sloppyjobs import errors, options, payload, telemetry
from sloppyjobs.definitions import Definitions, default_terms
from sloppyjobs.model import NewJob, Terms
from sloppyjobs.retry import Retry


class NewJobs:
    """Makes jobs by their definitions. Raises ``UnknownJob``, ``InvalidPayload`` or ``InvalidOption``."""

    def __init__(self, definitions: Definitions, payload_limit: int) -> None:
        self._definitions = definitions
        self._limit = payload_limit

    def many(self, items: Sequence[tuple[Any, ...]], ids: Sequence[str]) -> list[NewJob]:
        """Jobs from items; those of one name without options share their terms. Errors name the item's position."""
        return self._alike(items, ids) or self._one_by_one(items, ids)

    def _alike(self, items: Sequence[tuple[Any, ...]], ids: Sequence[str]) -> list[NewJob] | None:
        """All at once where they have one name, no options and simple payloads, as most do."""
        if set(map(type, items)) != {tuple} or set(map(len, items)) != {2}:
            return None
        names, values = zip(*items, strict=True)
        if set(map(type, names)) != {str} or len(set(names)) > 1:
            return None
        definition = self._definitions.get(names[0])
        if definition is None or definition.input is not None:
            return None
        texts = payload.encode_flat(values, self._limit)
        if texts is None:
            return None
        terms = Terms(**default_terms(definition))
        return [NewJob(id, text, terms) for id, text in zip(ids, texts, strict=True)]

    def _one_by_one(self, items: Sequence[tuple[Any, ...]], ids: Sequence[str]) -> list[NewJob]:
        shared: dict[str, tuple[Any, Terms]] = {}
        limit, encode = self._limit, payload.encode
        made: list[NewJob] = []
        for item, id in zip(items, ids, strict=True):
            if type(item) is not tuple or len(item) != 2 or type(item[0]) is not str:
                made.append(self._from_item(len(made), item, id))
                continue
            name, value = item
            found = shared.get(name)
            if found is None:
                definition = self._definitions.get(name)
                if definition is None:
                    made.append(self._from_item(len(made), item, id))
                    continue
                found = shared[name] = definition.input, Terms(**default_terms(definition))
            try:
                if found[0] is not None:
                    value = payload.validate_input(value, found[0], limit=limit)
                made.append(NewJob(id, encode(value, limit), found[1]))
            except errors.JobsError as error:
                raise type(error)(f"items[{len(made)}]: {error}") from None
        return made

    def make(self, name: str, value: Any, id: str, given: Mapping[str, Any]) -> NewJob:
        """A job of that name with the given options; those that are None take the definition's."""
        definition = self._definitions.require(name)
        fields = default_terms(definition)
        for option, put in OPTIONS.items():
            chosen = given.get(option)
            if chosen is not None:
                put(fields, chosen)
        if "run_at" in fields and "delay" in fields:
            raise errors.InvalidOption("delay and run_at exclude each other: pass one of them")
        if definition.input is not None:
            value = payload.validate_input(value, definition.input, limit=self._limit)
        return NewJob(id, payload.encode(value, limit=self._limit), Terms(**fields))

    def _from_item(self, position: int, item: tuple[Any, ...], id: str) -> NewJob:
        """A job from an item of ``enqueue_many``; errors name its position."""
        if not isinstance(item, tuple | list) or not 1 <= len(item) <= 3:
            raise options.refuse(f"items[{position}]", item, "must be (name, payload) or (name, payload, options)")
        given = item[2] if len(item) == 3 else {}
        if not isinstance(given, Mapping):
            raise options.refuse(f"items[{position}]", given, "the options must be a mapping")
        unknown = set(given) - OPTIONS.keys()
        if unknown:
            raise options.unknown(min(map(str, unknown)), OPTIONS, f"items[{position}]: enqueue")
        try:
            return self.make(item[0], item[1] if len(item) > 1 else None, id, given)
        except errors.JobsError as error:
            raise type(error)(f"items[{position}]: {error}") from None


def connection_of(session: Any, connection: Connection | None) -> Connection | None:
    """The connection of the caller's transaction, if a session or connection was given."""
    if session is None:
        if hasattr(connection, "sync_connection"):
            raise options.refuse(
                "connection", connection, "is asynchronous: await enqueue_async(..., connection=connection)"
            )
        if connection is not None and not isinstance(connection, Connection):
            raise options.refuse("connection", connection, "must be a SQLAlchemy Connection")
        return connection
    if connection is not None:
        raise errors.InvalidOption("session and connection exclude each other: pass one of them")
    if hasattr(session, "sync_session"):
        raise options.refuse("session", session, "is asynchronous: await enqueue_async(..., session=session)")
    try:
        found = session.connection()
    except AttributeError:
        raise options.refuse("session", session, "must be a SQLAlchemy session") from None
    assert isinstance(found, Connection)
    return found


def _set_retry(fields: dict[str, Any], retry: object) -> None:
    if not isinstance(retry, Retry):
        raise options.refuse("retry", retry, "must be a Retry, such as Retry(max_attempts=5)")
    if callable(retry.backoff):
        raise options.refuse("retry", retry, "a callable backoff can only be given to define, not to one job")
    fields["retry_policy"] = None if retry.is_default else retry.to_json()
    fields["max_attempts"] = retry.max_attempts


def _set_max_attempts(fields: dict[str, Any], value: object) -> None:
    fields["max_attempts"] = options.whole("max_attempts", value, least=1, most=1_000_000)


def _set_metadata(fields: dict[str, Any], value: object) -> None:
    if not isinstance(value, Mapping):
        raise options.refuse("metadata", value, "must be a mapping")
    merged = dict(value)
    if telemetry.TRACE in merged:
        raise options.refuse("metadata", value, f"the key {telemetry.TRACE!r} is reserved")
    if fields["metadata"] is not None:
        merged = {**payload.decode(fields["metadata"]), **merged}
    fields["metadata"] = payload.encode(merged, what="metadata", limit=65_536)


def _setter(option: str, check: Callable[[str, Any], Any]) -> Callable[[dict[str, Any], Any], None]:
    def put(fields: dict[str, Any], value: Any) -> None:
        fields[option] = check(option, value)

    return put


# In this order: an explicit max_attempts wins over the policy's.
OPTIONS: dict[str, Callable[[dict[str, Any], Any], None]] = {
    "queue": _setter("queue", options.queue),
    "priority": _setter("priority", options.whole),
    "delay": _setter("delay", options.seconds),
    "run_at": _setter("run_at", options.instant),
    "idempotency_key": _setter("idempotency_key", options.key),
    "retry": _set_retry,
    "max_attempts": _set_max_attempts,
    "timeout": _setter("timeout", lambda option, value: options.seconds(option, value, zero=False)),
    "correlation_id": _setter("correlation_id", options.key),
    "metadata": _set_metadata,
    "principal": _setter("principal", options.key),
}
