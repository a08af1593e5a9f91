"""The terms of many new jobs at once: each option is read for all jobs that give it, and each of its values once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import repeat
from typing import Any

from sloppyjobs.domain.model import Terms
from sloppyjobs.enqueue.definitions import Definition, default_terms
from sloppyjobs.enqueue.option_rules import OPTIONS, Fields, refuse_together

ONCE = {str, int, float, timedelta, datetime}
"""Types of values that are read once for all jobs that give the same."""

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
    shapes = list(zip(names, map(tuple, given), strict=True))
    different = dict.fromkeys(shapes)
    if len(different) == 1:
        return _terms_of_shape(known, shapes[0], given, host, partitions)
    positions: dict[Shape, list[int]] = {shape: [] for shape in different}
    for position, shape in enumerate(shapes):
        positions[shape].append(position)
    terms: list[Any] = [None] * len(items)
    for shape, own in positions.items():
        parts = None if partitions is None else [partitions[position] for position in own]
        found = _terms_of_shape(known, shape, [given[position] for position in own], host, parts)
        if found is None:
            return None
        for position, one in zip(own, found[0], strict=True):
            terms[position] = one
    return terms, None


def _terms_of_shape(
    known: Mapping[str, Definition],
    shape: Shape,
    given: list[dict[str, Any]],
    host: Fields,
    partitions: Sequence[str | None] | None,
) -> Found | None:
    """The terms of jobs of one name that give the same options."""
    name, chosen = shape
    # A payload of an older version is checked in its own way.
    if not OPTIONS.keys() >= set(chosen) or "version" in chosen:
        return None
    refuse_together(chosen)
    fields = {**default_terms(known[name]), **host}
    if "partition" in chosen:
        # A job that gives None has the partition that the definition says.
        own = known[name].partition is not None and any(one["partition"] is None for one in given)
        if own or ("resource" not in chosen and fields["resource"] is None):
            return None
    if "delay" in chosen and ("expires" in chosen or fields["expires"] is not None):
        return None
    defaults, columns = dict(fields), dict[str, Sequence[Any]]()
    for option in OPTIONS:
        if option in chosen:
            for field, values in _read(option, [one[option] for one in given], defaults, columns).items():
                _set(fields, columns, field, values)
    if partitions is not None and known[name].partition is not None and "partition" not in chosen:
        _set(fields, columns, "partition_key", partitions)
    return _build(fields, columns, len(given)), frozenset(columns)


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
        return {name: [table[value] for value in values] for name, table in tables.items()}
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
    rows = list(zip(*columns.values(), strict=True))
    different = dict.fromkeys(rows)
    given = dict(zip(columns, zip(*different, strict=True), strict=True))
    made = map(Terms, *(given.get(field) or repeat(getattr(base, field)) for field in Terms.__struct_fields__))
    by_row = dict(zip(different, made, strict=True))
    return map(by_row.__getitem__, rows)
