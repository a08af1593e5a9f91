"""The page on conformance: ``make conformance-report``, which writes docs/reference/conformance.md.

Runs the suite over every database that is at hand. A test that could not be run anywhere has a reason; a failure makes
this command fail.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from sloppyjobs.testing import conformance

DATABASES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "mariadb": "MariaDB", "sqlserver": "SQL Server"}
PARTS = {
    "enqueue": "Enqueueing, keys, what is refused",
    "claim": "Claiming and its order",
    "settle": "Settlements and the fence",
    "leases": "Leases and what is reported under them",
    "run": "Workers and handlers",
    "control": "Business keys, expiry, tags, dependencies, batches",
    "locks": "Named locks",
    "schedules": "Schedules",
    "admin": "What operators see and do",
    "retention": "Retention and the archive",
    "sql": "Transactions, damaged rows, the schema, bounds, row locks",
}
SUITE = ("tests/conformance/test_conformance.py", "tests/conformance/test_versions.py")

INTRODUCTION = """\
# Conformance

<!-- Written by: make conformance-report -->

One suite, `sloppyjobs.testing.conformance`, judges every store. This is one run of it over all databases, on {day}.
The numbers are tests that passed; a test with several cases counts each of them.
"""

BABELFISH = """
SQL Server itself was not at hand. The suite ran over its protocol (TDS) against Babelfish for PostgreSQL, the version
above; the statements are also parsed as T-SQL in every run of the tests. Babelfish accepts the locking hints and
ignores them, so only the conditional updates kept jobs from being claimed or settled twice.
"""


class Case(NamedTuple):
    """One test on one database."""

    test: str
    database: str
    outcome: str
    reason: str = ""
    properties: Mapping[str, str] = {}


def run() -> list[Case]:
    """Run the suite, and read what became of each test."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "junit.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n", "4", "--dist", "worksteal", f"--junitxml={found}"]
        subprocess.run([*command, *SUITE], check=False, stdout=sys.stderr)
        return list(read(ElementTree.parse(found).getroot()))


def read(report: ElementTree.Element) -> Iterable[Case]:
    """The cases of a report as pytest writes it."""
    for case in report.iter("testcase"):
        name, _, rest = (case.get("name") or "").partition("[")
        words = rest.rstrip("]").split("-")
        database = next((one for one in DATABASES if one in words), None)
        if database is None:
            continue
        properties = {one.get("name") or "": one.get("value") or "" for one in case.iter("property")}
        skipped, failed = case.find("skipped"), case.find("failure")
        failed = case.find("error") if failed is None else failed
        if failed is not None:
            yield Case(name, database, "failed", (failed.get("message") or "").splitlines()[0])
        elif skipped is not None:
            yield Case(name, database, "skipped", skipped.get("message") or "")
        else:
            yield Case(name, database, "passed", properties=properties)


def page(cases: Iterable[Case], now: datetime) -> str:
    """The page in Markdown."""
    cases = list(cases)
    parts = {part: _tests_of(part) for part in PARTS}
    numbers: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for case in cases:
        for part, tests in parts.items():
            if case.test in tests:
                numbers[part, case.database][case.outcome] += 1
    lines = [INTRODUCTION.format(day=f"{now:%-d %B %Y}")]
    lines += [f"| part | {' | '.join(DATABASES.values())} |", "|---|" + "---|" * len(DATABASES)]
    versions = {case.database: case.properties for case in cases if "version" in case.properties}
    told = [_version(versions.get(database)) for database in DATABASES]
    lines.append(f"| version, driver | {' | '.join(told)} |")
    for part, title in PARTS.items():
        cells = [_cell(numbers[part, database]) for database in DATABASES]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for (_, database), counted in numbers.items():
        totals[database] += counted
    lines.append(f"| **all** | {' | '.join(_cell(totals[database]) for database in DATABASES)} |")
    if "Babelfish" in versions.get("sqlserver", {}).get("version", ""):
        lines.append(BABELFISH)
    lines += _left_out(cases)
    return "\n".join(lines).rstrip("\n") + "\n"


def _version(properties: Mapping[str, str] | None) -> str:
    return "not at hand" if properties is None else f"{properties['version'][:60]}, {properties['driver']}"


def _cell(counted: Counter[str]) -> str:
    words = [f"{counted['passed']:,}"]
    words += [f"{counted[outcome]} {outcome}" for outcome in ("failed", "skipped") if counted[outcome]]
    return ", ".join(words)


def _left_out(cases: Iterable[Case]) -> list[str]:
    reasons: dict[tuple[str, str], set[str]] = defaultdict(set)
    for case in cases:
        if case.outcome == "skipped":
            reasons[case.database, case.reason].add(case.test)
    if not reasons:
        return []
    lines = ["## Not run, and why\n", "| database | reason | tests |", "|---|---|---|"]
    for (database, reason), tests in sorted(reasons.items()):
        named = ", ".join(f"`{test}`" for test in sorted(tests)) if len(tests) <= 5 else f"{len(tests)} tests"
        lines.append(f"| {DATABASES[database]} | {reason.replace('|', '/')} | {named} |")
    return lines


def _tests_of(part: str) -> set[str]:
    return {name for name in vars(import_module(f"{conformance.__name__}.{part}")) if name.startswith("test_")}


def main() -> None:
    """Run the suite and print the page."""
    cases = run()
    sys.stdout.write(page(cases, datetime.now(UTC)))
    failed = [case for case in cases if case.outcome == "failed"]
    for case in failed:
        sys.stderr.write(f"failed: {case.test} on {case.database}: {case.reason}\n")
    sys.exit(1 if failed or not cases else 0)


if __name__ == "__main__":
    main()
