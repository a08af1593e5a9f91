"""Compiled templates and routes that all applications of a test process share.

Nearly every test of the pages makes an application of its own. Jinja compiles each template once per application, and
Werkzeug a function for the addresses of each route: that took most of the time of these tests.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import wraps
from typing import Any, NamedTuple

from jinja2 import Environment
from werkzeug.routing import Rule


def share_templates() -> None:
    """Let every Jinja environment of this process that has the same settings take the code of the others."""
    compile_alone = Environment.compile
    shared: dict[Hashable, Any] = {}

    @wraps(compile_alone)
    def compile_once(
        environment: Environment,
        source: Any,
        name: str | None = None,
        filename: str | None = None,
        *rest: Any,
        **more: Any,
    ) -> Any:
        if not isinstance(source, str) or rest or more:
            return compile_alone(environment, source, name, filename, *rest, **more)
        key = (source, name, filename, _settings(environment, name))
        code = shared.get(key)
        if code is None:
            code = shared[key] = compile_alone(environment, source, name, filename)
        return code

    Environment.compile = compile_once  # type: ignore[method-assign]


def _settings(environment: Environment, name: str | None) -> Hashable:
    """All of an environment that goes into the code of a template, which knows whether it is to escape."""
    escape = environment.autoescape
    plain = {key: value for key, value in vars(environment).items() if isinstance(value, str | bool | None)}
    return (
        type(environment),
        repr(sorted(plain.items())),
        bool(escape(name) if callable(escape) else escape),
        environment.undefined,
        environment.finalize,
        tuple(environment.extensions),
        # What is applied to constants is applied when the template is compiled.
        frozenset(environment.filters.items()),
        frozenset(environment.tests.items()),
    )


def share_routes() -> None:
    """Let every route of this process take the functions of an equal one. They know only what they are given."""
    build_alone: Any = Rule._compile_builder
    shared: dict[Hashable, Any] = {}

    @wraps(build_alone)
    def build_once(rule: Any, append_unknown: bool = True) -> Any:
        if rule.defaults:
            return build_alone(rule, append_unknown)
        key = (rule.rule, tuple(rule._trace), append_unknown)
        built = shared.get(key)
        if built is None:
            built = shared[key] = build_alone(rule, append_unknown)
        return built

    Rule._compile_builder = build_once  # type: ignore[method-assign]
    _share_parts()


class _Parsed(NamedTuple):
    """What parsing a rule has found: its parts, what they were, and the converters of its variables."""

    parts: list[Any]
    trace: list[Any]
    converters: list[tuple[str, type, tuple[Any, ...]]]


def _share_parts() -> None:
    """The same for the parts of a route. Only the converters belong to one application: they are made for each."""
    parse_alone: Any = Rule._parse_rule
    shared: dict[str, _Parsed] = {}

    @wraps(parse_alone)
    def parse_once(rule: Any, text: str) -> Any:
        known = shared.get(text)
        if known is None or any(rule.map.converters.get(asked[1]) is not kind for _, kind, asked in known.converters):
            return parse(rule, text)
        for name, _, asked in known.converters:
            rule._converters[name] = rule.get_converter(*asked)
            rule.arguments.add(name)
        rule._trace += known.trace
        return known.parts

    def parse(rule: Any, text: str) -> Any:
        get_alone, before, asked = rule.get_converter, len(rule._trace), []

        def get(*given: Any) -> Any:
            asked.append((given[0], rule.map.converters.get(given[1]), given))
            return get_alone(*given)

        rule.get_converter = get
        parts = list(parse_alone(rule, text))
        del rule.get_converter
        shared[text] = _Parsed(parts, rule._trace[before:], asked)
        return parts

    Rule._parse_rule = parse_once  # type: ignore[method-assign]
