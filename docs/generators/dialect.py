"""The page on dialects: ``python docs/generators/dialect.py > docs/reference/dialect.md``.

Names, sentences and defaults come from the classes that a dialect overrides; the sentences of a database are the
docstrings of its own forms.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta
from importlib import import_module
from typing import Any, NamedTuple

from sloppyjobs.storage.dialect import Dialect
from sloppyjobs.storage.dialects.mariadb.dialect import MariaDbDialect
from sloppyjobs.storage.dialects.mariadb.schema import MariaDbStyle, MariaDbTypes
from sloppyjobs.storage.dialects.postgres.dialect import PostgresDialect
from sloppyjobs.storage.dialects.postgres.schema import PostgresStyle, PostgresTypes
from sloppyjobs.storage.dialects.sqlite.dialect import SqliteDialect
from sloppyjobs.storage.dialects.sqlite.schema import SqliteStyle, SqliteTypes
from sloppyjobs.storage.dialects.sqlserver.dialect import SqlServerDialect
from sloppyjobs.storage.dialects.sqlserver.schema import SqlServerStyle, SqlServerTypes
from sloppyjobs.storage.operations import Operations
from sloppyjobs.storage.schema.style import ColumnTypes, TableStyle

INTRODUCTION = """\
# What a dialect says

<!-- Generated: python docs/generators/dialect.py > docs/reference/dialect.md -->

Everything in which databases differ is a value or a method of three classes, which a package in
`sloppyjobs/storage/dialects` overrides. For those who [add a database](../contributing.md#add-a-dialect); nothing here
is for applications. An empty cell says that the database takes the default.
"""

MUST = """\
## A dialect must say

`Dialect` in `sloppyjobs/storage/dialect.py`. There is no default.
"""

MAY = """\
## A dialect may say

`Dialect` too. The default works on every database with row locks and savepoints; where it is no code, it is common SQL.
"""

TYPES = """\
## Types of columns

`ColumnTypes` in `sloppyjobs/storage/schema/style.py`; a package has its own as `TYPES` in its module `schema`.
"""

STYLE = """\
## Form of tables

`TableStyle` in the same module; a dialect names its own as `style`.
"""

OPERATIONS = """\
## Hot operations

`Operations` in `sloppyjobs/storage/operations.py`: how each is made. A dialect replaces those that its database does
better, and inherits from the common class all that it does not.
"""

LONGEST = 60
"""A longer expression says less than that it is the common form."""


OWN = "its own"


class Member(NamedTuple):
    """A value or a method of a class, as its source says it."""

    says: str
    form: str | None
    """What it is, in short; None where it is abstract."""


class Described(NamedTuple):
    """A database with a column in each table of the page."""

    title: str
    package: str
    dialect: type[Dialect]
    types: type[ColumnTypes]
    style: type[TableStyle]


DATABASES = (
    Described("SQLite", "sqlite", SqliteDialect, SqliteTypes, SqliteStyle),
    Described("PostgreSQL", "postgres", PostgresDialect, PostgresTypes, PostgresStyle),
    Described("MariaDB, MySQL", "mariadb", MariaDbDialect, MariaDbTypes, MariaDbStyle),
    Described("SQL Server", "sqlserver", SqlServerDialect, SqlServerTypes, SqlServerStyle),
)


def document() -> str:
    """The page."""
    members = _members(Dialect)
    must = {name: member for name, member in members.items() if member.form is None}
    may = {name: member for name, member in members.items() if member.form is not None}
    dialects = [_overrides(one.dialect, Dialect) for one in DATABASES]
    types = [_overrides(one.types, ColumnTypes) for one in DATABASES]
    styles = [_overrides(one.style, TableStyle) for one in DATABASES]
    operations = [_replaced(one.package) for one in DATABASES]
    parts = [
        (MUST, _table(must, dialects, with_default=False)),
        (MAY, _table(may, dialects)),
        (TYPES, _table(_members(ColumnTypes), types)),
        (STYLE, _table(_members(TableStyle), styles)),
        (OPERATIONS, _table(_members(Operations), operations)),
    ]
    return "\n".join([INTRODUCTION, *("\n".join([text, *rows, ""]) for text, rows in parts)])


Own = dict[str, str]
"""What a database says in its own way: a cell for each name."""


def _table(members: dict[str, Member], databases: list[Own], *, with_default: bool = True) -> Iterator[str]:
    heads = ["name", "what it says", *(["default"] if with_default else []), *(one.title for one in DATABASES)]
    yield _row(heads)
    yield "|---" * len(heads) + "|"
    for name, member in members.items():
        if not member.says:
            raise SystemExit(f"{name} has no docstring")
        cells = [f"`{name}`", member.says, *([member.form or ""] if with_default else [])]
        yield _row([*cells, *(own.get(name, "") for own in databases)])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _overrides(kind: type, base: type) -> Own:
    """What a class, or one between it and the base, says in its own way."""
    found: Own = {}
    for parent in reversed(kind.__mro__):
        if issubclass(parent, base) and parent is not base:
            found |= {name: member.says or _value(kind, name) for name, member in _members(parent).items()}
            found |= dict.fromkeys(_set_when_made(parent) & vars(base).keys(), OWN)
    return found


def _value(kind: type, name: str) -> str:
    value = getattr(kind, name)
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)} µs"
    shown = " ".join(str(value).split())
    return f"`{shown}`" if isinstance(value, str | int) and len(shown) <= LONGEST else OWN


def _set_when_made(kind: type) -> set[str]:
    """The attributes that ``__init__`` sets."""
    found = (node for node in ast.walk(_source(kind)) if isinstance(node, ast.Attribute))
    return {node.attr for node in found if isinstance(node.ctx, ast.Store)}


def _replaced(package: str) -> Own:
    """The hot operations that a database does in its own way."""
    import_module(f"sloppyjobs.storage.dialects.{package}.operations")
    found: Own = {}
    for field in fields(Operations):
        common: Any = field.default
        for kind in common.__subclasses__():
            if kind.__module__.startswith(f"sloppyjobs.storage.dialects.{package}."):
                found[field.name] = _first_sentence(inspect.getdoc(kind) or kind.__name__)
    return found


def _source(kind: type) -> ast.ClassDef:
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    return tree


def _members(kind: type) -> dict[str, Member]:
    """The public values and methods of a class itself, in the order of the source."""
    body, found = _source(kind).body, dict[str, Member]()
    for node, after in zip(body, [*body[1:], None], strict=True):
        match node:
            case ast.FunctionDef(name=name):
                found[name] = Member(_first_sentence(ast.get_docstring(node) or ""), _method_form(node))
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                found[name] = Member(_described(after), None if value is None else _code(value))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = Member(_described(after), _code(value))
    return {name: member for name, member in found.items() if not name.startswith("_")}


def _described(node: ast.stmt | None) -> str:
    """The text that stands below an attribute."""
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return _first_sentence(text)
    return ""


def _method_form(node: ast.FunctionDef) -> str | None:
    if any(isinstance(one, ast.Name) and one.id == "abstractmethod" for one in node.decorator_list):
        return None
    match node.body[1:]:
        case []:
            return "does nothing"
        case [ast.Return(value=ast.expr() as value)] if len(ast.unparse(value)) <= LONGEST:
            return _code(value)
        case [ast.Raise()]:
            return "raises"
    return "a common form"


def _code(value: ast.expr) -> str:
    text = ast.unparse(value)
    return f"`{text}`" if len(text) <= LONGEST else OWN


def _first_sentence(text: str) -> str:
    """As Markdown."""
    words = " ".join(text.split())
    sentence, stop, _ = words.partition(". ")
    return (sentence + stop.strip()).replace("``", "`")


if __name__ == "__main__":
    sys.stdout.write(document())
