"""Runs the Python blocks of one page in one namespace: a block in on stdin, its output back on the first stdout.

File descriptor 1 itself goes to a file meanwhile, so that what threads and child processes print is seen too.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from types import ModuleType


def main() -> None:
    """Answer every line, a JSON object, by another."""
    answers = os.fdopen(os.dup(1), "w")
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.path[0] = str(Path.cwd())
    for line in sys.stdin:
        block = json.loads(line)
        with tempfile.TemporaryFile("w+") as printed:
            os.dup2(printed.fileno(), 1)
            error = _execute(block, module)
            sys.stdout.flush()
            printed.seek(0)
            answers.write(json.dumps({"printed": printed.read(), "error": error}) + "\n")
        answers.flush()


def _execute(block: dict[str, str], module: ModuleType) -> str | None:
    # Empty lines before it give each line its number in the page.
    source = "\n" * (int(block["line"]) - 1) + block["text"]
    try:
        exec(compile(source, block["path"], "exec"), module.__dict__)
    except BaseException:
        return traceback.format_exc()
    return None


main()
