"""The terms of many new jobs at once: each option is read for all jobs that give it, and each of its values once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import repeat
from operator import itemgetter
from typing import Any

from sloppyjobs.domain.model import Terms
from sloppyjobs.enqueue.definitions import Definition, default_terms
from sloppyjobs.enqueue.option_rules import OPTIONS, Fields, refuse_together

ONCE = {str, int, float, timedelta, datetime}
"""Types of values that are read once for all jobs that give the same."""

DEFAULTS = dict(zip(reversed(Terms.__struct_fields__), reversed(Terms.__struct_defaults__), strict=False))
"""What the fields of terms have that are not given."""

Found = tuple[Iterable[Terms], frozenset[str] | None]
"""The terms of each job, and the fields in which they can differ; None where nobody has looked."""

Shape = tuple[str, tuple[str, ...]]
"""The name of a job and those of its options: jobs of one shape are read as one batch."""


def terms_of(
    known: Mapping[str, Definition],
    names: Sequence[str],
    items: Sequence[tuple[Any, ...]],
    host: Fields,
    partitions: Sequence[str | None] | None = None,
) -> Found | None:
    """The terms of each item, in order; None where options must be read one by one. Raises for some.

    ``host`` are terms that the application decides for all; ``partitions`` what definitions say of each payload's.
    """
    if max(map(len, items)) < 3 and partitions is None:
        by_name = {name: Terms(**{**default_terms(found), **host}) for name, found in known.items()}
        return map(by_name.__getitem__, names), frozenset() if len(by_name) == 1 else None
    given = [item[2] if len(item) == 3 else {} for item in items]
    if set(map(type, given)) != {dict}:
        return None
    if len(known) == 1 and (columns := _columns_of_all(given)) is not None:
        return _terms_of_shape(known, names[0], columns, len(given), host, partitions)
    positions: dict[Shape, list[int]] = {}
    for position, shape in enumerate(zip(names, map(tuple, given), strict=True)):
        positions.setdefault(shape, []).append(position)
    terms: list[Any] = [None] * len(items)
    for (name, chosen), own in positions.items():
        parts = None if partitions is None else [partitions[position] for position in own]
        columns = {option: [given[position][option] for position in own] for option in chosen}
        found = _terms_of_shape(known, name, columns, len(own), host, parts)
        if found is None:
            return None
        for position, one in zip(own, found[0], strict=True):
            terms[position] = one
    return terms, None


def _columns_of_all(given: Sequence[dict[str, Any]]) -> dict[str, list[Any]] | None:
    """The values of each option, where all give the same ones."""
    if len(set(map(len, given))) > 1:
        return None
    try:
        return {option: list(map(itemgetter(option), given)) for option in given[0]}
    except KeyError:
        return None


def _terms_of_shape(
    known: Mapping[str, Definition],
    name: str,
    chosen: Mapping[str, list[Any]],
    number: int,
    host: Fields,
    partitions: Sequence[str | None] | None,
) -> Found | None:
    """The terms of so many jobs of one name that give the same options, by their values."""
    # A payload of an older version is checked in its own way.
    if not OPTIONS.keys() >= set(chosen) or "version" in chosen:
        return None
    refuse_together(chosen)
    fields = {**default_terms(known[name]), **host}
    if "partition" in chosen:
        # A job that gives None has the partition that the definition says.
        own = known[name].partition is not None and None in chosen["partition"]
        if own or ("resource" not in chosen and fields["resource"] is None):
            return None
    if "delay" in chosen and ("expires" in chosen or fields["expires"] is not None):
        return None
    defaults, columns = dict(fields), dict[str, Sequence[Any]]()
    for option in OPTIONS:
        if option in chosen:
            for field, values in _read(option, chosen[option], defaults, columns).items():
                _set(fields, columns, field, values)
    if partitions is not None and known[name].partition is not None and "partition" not in chosen:
        _set(fields, columns, "partition_key", partitions)
    return _build(fields, columns, number), frozenset(columns)


def _set(fields: dict[str, Any], columns: dict[str, Sequence[Any]], field: str, values: Sequence[Any]) -> None:
    """What is the same for all jobs is a field, and what is not a column."""
    columns.pop(field, None)
    if values.count(values[0]) == len(values):
        fields[field] = values[0]
    else:
        columns[field] = values


def _read(
    option: str, values: list[Any], defaults: Fields, before: Mapping[str, Sequence[Any]]
) -> dict[str, Sequence[Any]]:
    """The columns of terms that an option sets. A job that gives None for it has what it would have without it."""
    one = OPTIONS[option]
    whole = one.many(values, defaults) if one.many is not None else None
    if whole is not None:
        return {option: whole}
    kinds = set(map(type, values))
    if kinds == {type(None)}:
        return {}
    # Each value once; but equal ones of different types are not the same: 1 is a number, and True is none.
    if len(kinds) == 1 and kinds <= ONCE:
        known = {value: one.read(value, defaults) for value in set(values)}
        tables = {name: {value: found[name] for value, found in known.items()} for name in known[values[0]]}
        return {name: list(map(table.__getitem__, values)) for name, table in tables.items()}
    return _read_each([None if value is None else one.read(value, defaults) for value in values], defaults, before)


def _read_each(
    read: list[Fields | None], defaults: Fields, before: Mapping[str, Sequence[Any]]
) -> dict[str, Sequence[Any]]:
    names = dict.fromkeys(name for found in read if found is not None for name in found)
    return {
        name: [
            found[name] if found is not None else otherwise
            for found, otherwise in zip(read, before.get(name, repeat(defaults.get(name))), strict=False)
        ]
        for name in names
    }


def _build(fields: Fields, columns: Mapping[str, Sequence[Any]], number: int) -> Iterable[Terms]:
    """Terms with these columns, and the fields for all of them; jobs with the same values share theirs."""
    base = Terms(**fields)
    if not columns:
        return repeat(base, number)
    single = len(columns) == 1
    rows: Sequence[Any] = next(iter(columns.values())) if single else list(zip(*columns.values(), strict=True))
    different = dict.fromkeys(rows)
    if len(different) == number:
        return _made(base, columns)
    values = [tuple(different)] if single else zip(*different, strict=True)
    made = _made(base, dict(zip(columns, values, strict=True)))
    return map(dict(zip(different, made, strict=True)).__getitem__, rows)


def _made(base: Terms, columns: Mapping[str, Sequence[Any]]) -> Iterable[Terms]:
    """The terms with the values of each row of these columns.

    The fields after the last one that must be given have their defaults, which a struct fills by itself at no cost.
    """
    names = Terms.__struct_fields__
    last = max(
        place for place, name in enumerate(names) if name in columns or getattr(base, name) != DEFAULTS.get(name)
    )
    return map(Terms, *(columns.get(name) or repeat(getattr(base, name)) for name in names[: last + 1]))
