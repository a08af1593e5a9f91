"""From what a caller asks for to a job that can be written: everything is checked here, before any database is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import UnboundExecutionError

from sloppyjobs import errors
from sloppyjobs.domain import limits, options, payload
from sloppyjobs.domain.model import AlikeJobs, Job, NewJob, Terms
from sloppyjobs.domain.payload import version_of
from sloppyjobs.domain.states import WaitingFor
from sloppyjobs.enqueue import bulk_terms, typed_payloads
from sloppyjobs.enqueue.definitions import Definition, Definitions, default_terms
from sloppyjobs.enqueue.option_rules import OPTIONS, refuse_together
from sloppyjobs.enqueue.upcasts import upcast


class NewJobs:
    """Makes jobs by their definitions. Raises ``UnknownJob``, ``InvalidPayload`` or ``InvalidOption``."""

    def __init__(
        self, definitions: Definitions, payload_limit: int, principal: Callable[[], str | None] | None = None
    ) -> None:
        self._definitions = definitions
        self._limit = payload_limit
        self._principal = principal

    def _host_terms(self) -> dict[str, Any]:
        """The terms that the application decides for all of its jobs: on whose behalf they are."""
        who = None if self._principal is None else self._principal()
        return {} if who is None else {"principal": options.key("principal", who)}

    def many(self, items: Sequence[tuple[Any, ...]], ids: Sequence[str]) -> Sequence[NewJob]:
        """Jobs from items; those that ask for the same share their terms. Errors name the item's position."""
        return self._in_bulk(items, ids) or self._one_by_one(items, ids)

    def _in_bulk(self, items: Sequence[tuple[Any, ...]], ids: Sequence[str]) -> Sequence[NewJob] | None:
        """All at once, column by column; None where an item is refused or unusual: then each is read alone."""
        if not {tuple, list}.issuperset(map(type, items)) or not {1, 2, 3}.issuperset(map(len, items)):
            return None
        names = [item[0] for item in items]
        if set(map(type, names)) != {str}:
            return None
        definitions = {name: self._definitions.get(name) for name in set(names)}
        known = {name: found for name, found in definitions.items() if found is not None}
        if len(known) < len(definitions):
            return None
        values = [item[1] if len(item) > 1 else None for item in items]
        try:
            texts = self._texts(known, names, values)
            partitions = _partitions(known, names, items, values, texts)
            terms = bulk_terms.terms_of(known, names, items, self._host_terms(), partitions)
        except errors.JobsError:
            return None
        if terms is None:
            return None
        each, differing = terms
        made = map(NewJob, ids, texts, each)
        return list(made) if differing is None else AlikeJobs.of(made, differing)

    def _texts(self, known: Mapping[str, Definition], names: Sequence[str], values: list[Any]) -> Sequence[str]:
        """The payloads as JSON, those of each schema at once."""
        schemas = {id(found.input): found.input for found in known.values()}
        if len(schemas) == 1:
            return self._encoded(values, *schemas.values())
        texts = [""] * len(values)
        for key, schema in schemas.items():
            positions = [position for position, name in enumerate(names) if id(known[name].input) == key]
            encoded = self._encoded([values[position] for position in positions], schema)
            for position, text in zip(positions, encoded, strict=True):
                texts[position] = text
        return texts

    def _encoded(self, values: list[Any], schema: Any) -> list[str]:
        limit = self._limit
        if schema is None:
            return payload.encode_flat(values, limit) or [payload.encode(value, limit) for value in values]
        return typed_payloads.encode_typed(values, schema, limit) or [
            payload.encode(payload.validate_input(value, schema, limit=limit), limit) for value in values
        ]

    def _one_by_one(self, items: Sequence[tuple[Any, ...]], ids: Sequence[str]) -> list[NewJob]:
        pairs = zip(items, ids, strict=True)
        return [self._from_item(position, item, id) for position, (item, id) in enumerate(pairs)]

    def make(self, name: str, value: Any, id: str, given: Mapping[str, Any]) -> NewJob:
        """A job of that name with the given options; those that are None take the definition's."""
        definition = self._definitions.require(name)
        fields = default_terms(definition) | self._host_terms()
        chosen = [option for option in OPTIONS if given.get(option) is not None]
        if chosen:
            refuse_together(chosen)
        for option in chosen:
            fields |= OPTIONS[option].read(given[option], fields)
        if (expires := fields["expires"]) is not None and expires <= (fields.get("delay") or 0):
            raise options.refuse("expires", expires, f"must be later than the delay of {fields['delay']:g} s")
        text: str | None = None
        if fields["payload_version"] != definition.stored_version:
            text, value = self._older(value, fields["payload_version"], definition)
        elif definition.input is not None:
            value = payload.validate_input(value, definition.input, limit=self._limit)
        if definition.partition is not None and fields.get("partition_key") is None:
            fields["partition_key"] = limits.partition_of(definition.partition, value)
        if fields.get("partition_key") is not None and fields["resource"] is None:
            raise errors.InvalidOption(
                "partition says which part of a resource: pass resource as well", field="partition"
            )
        text = payload.encode(value, limit=self._limit) if text is None else text
        return NewJob(id, text, Terms(**fields))

    def _older(self, value: Any, version: int | None, definition: Definition) -> tuple[str, Any]:
        """A payload of an older version as it is written, and as its partition is read from it.

        That is upcast where the upcasts are known here, and then it must fit the schema.
        """
        text = payload.encode(value, limit=self._limit)
        newest = payload.decode(text)
        if all(start in definition.upcasts for start in range(version_of(version), definition.version)):
            newest = upcast(newest, version, definition)
            payload.convert(newest, definition.input)
        return text, newest

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
            named = type(error)(f"items[{position}]: {error}")
            if isinstance(error, errors.Refused) and isinstance(named, errors.Refused) and error.field is not None:
                named.field, named.reason = f"items[{position}].{error.field}", error.reason
            raise named from None


def _partitions(
    known: Mapping[str, Definition],
    names: Sequence[str],
    items: Sequence[tuple[Any, ...]],
    values: Sequence[Any],
    texts: Sequence[str],
) -> list[str | None] | None:
    """What definitions say of the partitions of these payloads; None where none of them says anything.

    An item that says it itself is not asked. Where there is a schema, the payload is looked at as it is written.
    """
    if all(one.partition is None for one in known.values()):
        return None
    partitions: list[str | None] = []
    for name, item, value, text in zip(names, items, values, texts, strict=True):
        found = known[name]
        if found.partition is None or (len(item) == 3 and isinstance(item[2], Mapping) and "partition" in item[2]):
            partitions.append(None)
            continue
        given = value if found.input is None or type(value) is dict else payload.decode(text)
        partitions.append(limits.partition_of(found.partition, given))
    return partitions


def inherited_options(old: Job, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a job that takes the place of another, without those that are given anew."""
    unknown = set(given) - OPTIONS.keys()
    if unknown:
        raise options.unknown(min(map(str, unknown)), OPTIONS, "replace")
    if old.waiting_for == WaitingFor.JOBS and given.get("depends_on") is None:
        # Its edges are not in its row, and without them the new job would run at once.
        reason = f"job {old.id} waits for other jobs: say for which ones the new job waits, or () for none"
        raise errors.InvalidOption(f"depends_on: {reason}", field="depends_on", reason=reason)
    kept: dict[str, Any] = {
        "queue": old.queue,
        # It ages anew, from the same run time.
        "priority": old.priority if old.base_priority is None else old.base_priority,
        "timeout": old.timeout,
        "correlation_id": old.correlation_id,
        "principal": old.principal,
        "metadata": old.metadata or None,
        "tags": old.tags,
        "business_key": old.business_key,
        "resource": old.resource,
        "partition": old.partition_key,
    }
    if given.get("retry") is None and not old.attempt_count:
        # Those of one that was tried may have been raised by an operator's retry.
        kept["max_attempts"] = old.max_attempts
    if given.get("delay") is None and given.get("run_at") is None:
        kept["run_at"] = old.run_at
    if given.get("business_key", old.business_key) is not None:
        kept["on_conflict"] = "replace"
    return kept


def is_asynchronous(session: Any) -> bool:
    """Whether it is an ``AsyncSession``, or an ``async_scoped_session``, which hides that it has one."""
    return hasattr(session, "sync_session") or inspect.iscoroutinefunction(getattr(session, "connection", None))


def connection_of(session: Any, connection: Connection | None) -> Connection | None:
    """The connection of the caller's transaction, if a session or connection was given."""
    if session is None:
        if hasattr(connection, "sync_connection"):
            raise options.refuse(
                "connection",
                connection,
                "is asynchronous: await enqueue_async(..., connection=connection), or any other call by "
                "await connection.run_sync(lambda c: jobs.chain(..., connection=c))",
            )
        if connection is not None and not isinstance(connection, Connection):
            raise options.refuse("connection", connection, "must be a SQLAlchemy Connection")
        return connection
    if connection is not None:
        raise errors.InvalidOption("session and connection exclude each other: pass one of them")
    if is_asynchronous(session):
        raise options.refuse(
            "session",
            session,
            "is asynchronous: await enqueue_async(..., session=session), or any other call by "
            "await session.run_sync(lambda s: jobs.chain(..., session=s))",
        )
    try:
        found = session.connection()
    except AttributeError:
        raise options.refuse("session", session, "must be a SQLAlchemy session") from None
    except UnboundExecutionError:
        accepted = "is bound to no single database: pass connection=session.connection(bind_arguments={'bind': engine})"
        raise options.refuse("session", session, accepted) from None
    assert isinstance(found, Connection)
    return found
