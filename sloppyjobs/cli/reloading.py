"""``worker --reload``: the worker as a child process, started anew whenever a Python file of the application changes.

For development. The child drains before it is replaced, as after SIGTERM.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

CHILD = "_SLOPPYJOBS_RELOADED"
"""Set in the environment of the child, which must not watch files itself."""
EVERY = 0.5
_LEFT_OUT = frozenset({"node_modules", "site-packages", "__pycache__"})

Seen = dict[Path, int]


def is_child() -> bool:
    """Whether this process is the worker, and not the one that watches."""
    return CHILD in os.environ


def watch_and_restart(folder: Path) -> int:
    """Run this command's own line in a child until SIGTERM or SIGINT; returns the last child's exit code."""
    stopping = threading.Event()

    def stop(_number: int, _frame: Any) -> None:
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    child = _start()
    try:
        seen = snapshot(folder)
        while not stopping.wait(EVERY):
            now = snapshot(folder)
            if now == seen:
                continue
            changed = sorted(str(path) for path, _ in seen.items() ^ now.items())
            seen = now
            click.echo(f"{changed[0]} has changed: the worker starts anew", err=True)
            _stop(child)
            child = _start()
        return _stop(child)
    finally:
        _stop(child)
        for number, handler in before.items():
            signal.signal(number, handler)


def snapshot(folder: Path) -> Seen:
    """Every Python file below the folder with the time of its last change; virtual environments are left out."""
    return dict(_files(folder))


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name in _LEFT_OUT:
            continue
        try:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path))
            elif entry.name.endswith(".py"):
                yield Path(entry.path), entry.stat().st_mtime_ns
        except OSError:
            continue  # gone since it was listed


def _start() -> subprocess.Popen[bytes]:
    command = [sys.executable, *sys.orig_argv[1:]]
    # A group of its own: Ctrl-C reaches the child once, through this process.
    return subprocess.Popen(command, env={**os.environ, CHILD: "1"}, start_new_session=True)  # noqa: S603


def _stop(child: subprocess.Popen[bytes]) -> int:
    if child.poll() is None:
        child.terminate()
    return child.wait()
