"""Regular expressions mean the same in every Python that is supported."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest

import sloppyjobs.domain
import sloppyjobs.views
import webui

PARSER: Any = re._parser  # type: ignore[attr-defined]
"""Of the standard library, which has no public one."""


def _patterns_in(value: object) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from _patterns_in(tuple(value.values()))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _patterns_in(item)


def _all_patterns() -> dict[str, re.Pattern[str]]:
    """The patterns of modules, by place."""
    found = {}
    for package in (sloppyjobs.domain, sloppyjobs.views, webui):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, value in vars(importlib.import_module(module.name)).items():
                for number, pattern in enumerate(_patterns_in(value)):
                    found[f"{module.name}.{name}[{number}]"] = pattern
    return found


def _possessive_groups(parsed: Any) -> Iterator[Any]:
    """What is repeated possessively and is more than one character."""
    for operation, arguments in parsed:
        if str(operation) == "POSSESSIVE_REPEAT" and len(arguments[2]) == 1:
            inner = str(arguments[2][0][0])
            if inner not in {"IN", "LITERAL", "NOT_LITERAL", "ANY", "RANGE", "CATEGORY"}:
                yield arguments[2]
        elif str(operation) == "POSSESSIVE_REPEAT":
            yield arguments[2]
        for inside in _parsed_parts(arguments):
            yield from _possessive_groups(inside)


def _parsed_parts(arguments: Any) -> Iterator[Any]:
    if isinstance(arguments, PARSER.SubPattern):
        yield arguments
    elif isinstance(arguments, tuple | list):
        for one in arguments:
            yield from _parsed_parts(one)


@pytest.mark.parametrize(
    "pattern", [r"(?:a|bc)*+", r"x(?:ab)++", r"((?:\\.)?+)", r"(?=(?:a|bc)*+)", r"a|(?>(?:a|bc)++)"]
)
def test_groups_that_are_repeated_possessively_are_found(pattern: str) -> None:
    assert list(_possessive_groups(PARSER.parse(pattern)))


@pytest.mark.parametrize("pattern", [r"[^ab]*+", r"\w{1,20}+", r"(?>(?:a|b)*)", r"\]?+"])
def test_others_are_not(pattern: str) -> None:
    assert not list(_possessive_groups(PARSER.parse(pattern)))


def test_no_pattern_repeats_a_group_possessively() -> None:
    patterns = _all_patterns()
    assert len(patterns) > 50
    wrong = {
        place
        for place, pattern in patterns.items()
        if list(_possessive_groups(PARSER.parse(pattern.pattern, pattern.flags)))
    }
    # Python before 3.11.5 matches these wrongly, and would show secrets: repeat them in an atomic group, (?>(?:…)*).
    assert wrong == set()
