"""What ``import sloppyjobs`` costs and does, seen from fresh interpreters of a given Python."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

_SIDE_EFFECTS = """
import json, logging, os, sys, threading

opened = []
events = ("open", "socket.connect", "socket.bind", "sqlite3.connect", "subprocess.Popen", "os.mkdir", "os.fork")

def hook(event, args):
    if event == "open":
        path, mode, flags = args
        if isinstance(path, str) and flags & (os.O_WRONLY | os.O_RDWR):
            opened.append(f"{event} {path}")
    elif event in events:
        opened.append(f"{event} {args}")

before = set(sys.modules)
handlers = list(logging.getLogger().handlers)
sys.addaudithook(hook)
import sloppyjobs
for name in sloppyjobs.__all__:
    getattr(sloppyjobs, name)
print(json.dumps({
    "opened": opened,
    "threads": threading.active_count(),
    "logging": [str(one) for one in logging.getLogger().handlers if one not in handlers],
    "modules": sorted(set(sys.modules) - before),
}))
"""

_COST = """
import time
started = time.process_time()
import sloppyjobs
print(time.process_time() - started)
"""


def everything_public(python: Path, folder: Path) -> dict[str, Any]:
    """What importing the package and using each public name once has left behind."""
    seen: dict[str, Any] = json.loads(_run(python, folder, _SIDE_EFFECTS))
    return seen


def loaded(python: Path, folder: Path, statement: str) -> set[str]:
    """The modules that a statement loads."""
    program = f"import sys\nbefore = set(sys.modules)\n{statement}\nprint(*set(sys.modules) - before)"
    return set(_run(python, folder, program).split())


def seconds(python: Path, folder: Path) -> float:
    """Processor time of the import, the best of several: other processes cannot make it look slow for long."""
    return min(float(_run(python, folder, _COST)) for _ in range(7))


def _run(python: Path, folder: Path, program: str) -> str:
    # -B: compiled files are none of its side effects.
    command = [str(python), "-B", "-c", program]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
