"""A page of the documentation as the tests see it: its settings, and its blocks in order.

The conventions are described in docs/contributing.md.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

EXECUTED = frozenset({"python", "console"})
SHOWN = frozenset({"text", "json", "toml", "ini", "yaml", "sql", "html", "jinja", "nginx", "promql"})
"""Languages of blocks that show something; with a title they are written to a file."""

LEFT_OUT = {
    DOCS / "tutorial.md": "tests/packaging runs it, in an empty environment",
    DOCS / "benchmarks.md": "its commands measure for minutes",
    DOCS / "admin-growth.md": "its commands fill tables for minutes",
    DOCS / "reference" / "cli.md": "its examples are run when it is generated",
}

_FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,})(?P<language>[^\s`]*) *(?P<attributes>[^`]*)")
_TITLE = re.compile(r'title="([^"]+)"')
_COMMENT = re.compile(r" *<!-- *(?P<word>not run|step):(?P<text>.*?) *-->")
_SETTING = re.compile(r"(\w+): *(.*)")


class BadPage(Exception):
    """The page breaks a convention; the text says where and which."""


@dataclass(frozen=True)
class Block:
    """A fenced block. ``line`` is the number of its first line of text in the page."""

    language: str
    text: str
    line: int
    title: str | None = None
    not_run: str | None = None


@dataclass(frozen=True)
class Step:
    """What a reader does by hand between two blocks; ``steps.py`` does it for the tests."""

    name: str
    line: int


@dataclass(frozen=True)
class Page:
    """A page, read."""

    path: Path
    settings: dict[str, str]
    parts: tuple[Block | Step, ...]


def executed_pages() -> list[Path]:
    """Every page whose blocks are executed by this folder's tests."""
    found = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    return [page for page in found if page not in LEFT_OUT and page.parent.name != "adr"]


def generated_pages() -> dict[Path, str]:
    """The pages that a command writes, and the command."""
    texts = {page: page.read_text() for page in sorted(DOCS.rglob("*.md"))}
    found = {page: re.search(r"^<!-- Generated: (.+) > .+ -->$", text, re.MULTILINE) for page, text in texts.items()}
    return {page: command[1] for page, command in found.items() if command}


def read(path: Path) -> Page:
    """Read a page, or raise ``BadPage``."""
    lines = path.read_text().splitlines()
    settings = _settings(lines)
    return Page(path, settings, tuple(_parts(path, lines)))


def _settings(lines: list[str]) -> dict[str, str]:
    if not lines or lines[0] != "---":
        return {}
    found = map(_SETTING.fullmatch, lines[1 : lines.index("---", 1)])
    return {setting[1]: setting[2] for setting in found if setting}


def _parts(path: Path, lines: list[str]) -> Iterator[Block | Step]:
    numbered = iter(enumerate(lines, 1))
    not_run: str | None = None
    for number, line in numbered:
        if comment := _COMMENT.fullmatch(line):
            if comment["word"] == "step":
                yield Step(comment["text"].strip(), number)
                continue
            not_run = comment["text"].strip()
            if not not_run:
                raise BadPage(f"{path}:{number}: say why the block is not run")
        elif opening := _FENCE.fullmatch(line):
            yield _block(path, number, opening, numbered, not_run)
            not_run = None
        elif not_run is not None and line.strip():
            raise BadPage(f"{path}:{number}: 'not run' must stand directly before a block")


def _block(
    path: Path, number: int, opening: re.Match[str], rest: Iterator[tuple[int, str]], not_run: str | None
) -> Block:
    title = _TITLE.search(opening["attributes"])
    language = opening["language"]
    if language not in EXECUTED | SHOWN and not (title or not_run):
        raise BadPage(f"{path}:{number}: {language!r} is no known language: {', '.join(sorted(EXECUTED | SHOWN))}")
    text: list[str] = []
    for _, line in rest:
        if line.strip() == opening["fence"]:
            body = textwrap.dedent("\n".join(text)) + "\n"
            return Block(language, body, number + 1, title[1] if title else None, not_run)
        text.append(line)
    raise BadPage(f"{path}:{number}: the block has no end")


@dataclass(frozen=True)
class Command:
    """A command of a ``console`` block and what it should print; None where only its success matters."""

    text: str
    expected: str | None
    line: int

    @property
    def in_background(self) -> bool:
        """Whether it goes on while the next commands run."""
        return self.text.endswith(" &")


def commands(block: Block) -> list[Command]:
    """The commands of a ``console`` block: ``$`` starts one, a backslash at the end continues it."""
    found: list[tuple[str, list[str], int]] = []
    for number, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ "):
            found.append((line[2:], [], number))
        elif found and not found[-1][1] and found[-1][0].endswith("\\"):
            found[-1] = (f"{found[-1][0]}\n{line}", [], found[-1][2])
        elif found:
            found[-1][1].append(line)
        elif line.strip():
            raise BadPage(f"line {number}: a console block starts with a command, after '$ '")
    return [Command(text, "\n".join(lines) if any(lines) else None, number) for text, lines, number in found]


def pattern(expected: str) -> re.Pattern[str]:
    """What matches the expected output: dots for anything in a line, or alone on a line for any lines.

    Two spaces and more match one or more: the width of a table's column depends on what stands in it.
    """
    lines: list[str] = []
    for line in expected.strip("\n").splitlines():
        if line.strip() in ("…", "..."):
            lines.append(r"(?:.*\n)*?")
        else:
            pieces = re.split(r"(…|\.\.\.|  +)", line.rstrip())
            lines.append("".join(map(_piece, pieces)) + r"[ \t]*\n")
    return re.compile("".join(lines))


def _piece(text: str) -> str:
    if text in ("…", "..."):
        return ".*"
    return " +" if text.startswith("  ") else re.escape(text)


def matches(expected: str, printed: str, *, start_only: bool = False) -> bool:
    """Whether what was printed is what the page says; ``start_only`` for a command that goes on."""
    whole = printed.strip("\n") + "\n"
    found = pattern(expected)
    return bool(found.match(whole) if start_only else found.fullmatch(whole))
