"""One measured system in a process of its own: ``python -m benchmarks.subject <system> <action> <json>``.

Memory, imports and the interpreter's lock of one system never touch another. The answer is the last line of the
standard output, as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

MARK = "RESULT "


class PeerMissing(Exception):
    """The peer is not installed here."""


def run(system: str, action: str, *, checkout: Path | None = None, **params: Any) -> dict[str, Any]:
    """Run one action of one system in a new process, of this or another checkout, and return what it measured."""
    own = None if checkout is None else checkout / ".venv" / "bin" / "python"
    python = str(own) if own is not None and own.exists() else sys.executable
    done = subprocess.run(
        [python, "-m", "benchmarks.subject", system, action, json.dumps(params)],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    answers = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if done.returncode != 0 or not answers:
        raise RuntimeError(f"{system} {action} failed ({done.returncode}):\n{done.stdout}\n{done.stderr}")
    answer: dict[str, Any] = json.loads(answers[-1][len(MARK) :])
    if "missing" in answer:
        raise PeerMissing(answer["missing"])
    return answer


def main() -> None:
    """Do what the arguments say, here."""
    system, action, params = sys.argv[1:]
    try:
        module = importlib.import_module(f"benchmarks.{system}")
    except ImportError as error:
        answer = {"missing": f"{error.name or error} is not installed"}
    else:
        answer = getattr(module, action)(**json.loads(params)) or {}
    print(MARK + json.dumps(answer), flush=True)
    # Some systems leave threads behind; nobody waits for them here.
    os._exit(0)


if __name__ == "__main__":
    main()
