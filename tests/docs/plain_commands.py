"""Commands of pages that need no shell: a program of this Python, and its arguments. They start fast."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

IMPORTS_ITSELF = {"pytest"}
"""Programs that change what they import."""

_QUOTED = re.compile(r"'[^']*'")
_FOR_A_SHELL = re.compile(r"[][\\$`|&;<>(){}*?~#!\n]|^\w+=")


def plain_command(text: str, environment: Mapping[str, str]) -> list[str] | None:
    """The interpreter, and what it is given; None where a shell has something to do, or another program."""
    if _FOR_A_SHELL.search(_QUOTED.sub("", text)):
        return None
    name, *arguments = shlex.split(text)
    program = shutil.which(name, path=environment["PATH"])
    if program is None or Path(program).parent != Path(sys.executable).parent or IMPORTS_ITSELF & {name, *arguments}:
        return None
    if os.path.samefile(program, sys.executable):  # noqa: PTH121
        return [sys.executable, *arguments] if arguments else None
    return [sys.executable, program, *arguments] if _is_for(Path(sys.executable), Path(program)) else None


def _is_for(python: Path, script: Path) -> bool:
    """Whether the script is run by this interpreter, which has several names: ``python``, ``python3``."""
    with script.open("rb") as file:
        first = file.readline().strip()
    named = Path(os.fsdecode(first.removeprefix(b"#!")))
    return first.startswith(b"#!") and named.parent == python.parent and named.resolve() == python.resolve()
