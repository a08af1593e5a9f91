"""Nothing outside of ``storage/dialects`` names a database: a new one is a package there, and a line in its list."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sloppyjobs

ROOT = Path(sloppyjobs.__file__).parent
DIALECTS = ROOT / "storage" / "dialects"
NAMES = re.compile(r"sqlite|postgres|psycopg|pg8000|asyncpg|mysql|mariadb|mssql|sqlserver|pyodbc", re.IGNORECASE)

ALLOWED = {
    "cli/document.py": "the generated page has examples",
    "cli/root.py": "what to install for a driver that is missing, and the default in the help",
    "cli/target.py": "the database without --database is a file, which is named in messages",
    "demo/__init__.py": "the database without a URL is a file",
    "domain/redaction/secret_contexts.py": "client programs take passwords as options",
    "domain/redaction/secret_errors.py": "servers show values in their errors, each in its own words",
    "storage/__init__.py": "the public factories",
    "storage/jobs/rows.py": "a comment in generated code",
    "testing/conformance/sql_damage.py": "what can be damaged, and how, differs",
    "testing/conformance/sql_damaged_words.py": "what can be damaged, and how, differs",
    "testing/pytest_plugin.py": "the fixture of applications is a file",
}
"""Files that name one, and why they may."""


def _sources() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if not path.is_relative_to(DIALECTS))


def _found(source: str) -> set[str]:
    """The words of a module that name a database; comments and docstrings are for people and may."""
    tree = ast.parse(source)
    told = set(_docstrings(tree))
    words = (word for node in ast.walk(tree) if node not in told for word in _words(node))
    return {word for word in words if NAMES.search(word)}


def _docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    """Texts that stand alone: of modules, classes, functions, and below the attribute that they describe."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _words(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            yield name
        case ast.keyword(arg=str(name)) | ast.alias(name=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ImportFrom(module=str(name)):
            yield name


def test_no_module_names_a_database() -> None:
    found = {path.relative_to(ROOT).as_posix(): _found(path.read_text()) for path in _sources()}
    naming = {name: words for name, words in found.items() if words}
    assert {name: words for name, words in naming.items() if name not in ALLOWED} == {}, "ask the dialect instead"
    assert ALLOWED.keys() - naming.keys() == set(), "these may be taken from the list"


@pytest.mark.parametrize(
    "source",
    [
        "if dialect.name == 'sqlite': pass",
        "Index('ix', postgresql_where=x)",
        "from sqlalchemy.dialects.mssql import DATETIME2",
        "import psycopg",
        "def mariadb_form(): ...",
        "error.sqlite_errorcode",
    ],
)
def test_a_name_is_found_wherever_it_stands(source: str) -> None:
    assert _found(source) != set()


def test_people_are_told_of_databases() -> None:
    assert _found('"""For SQLite."""\nx = 1\n"""PostgreSQL has more."""\n# MariaDB has not\n') == set()
