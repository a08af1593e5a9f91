"""Child processes, and waiting for what they do."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

PATIENCE = 120.0
"""Seconds after which something that should have happened is an error."""


class Failed(Exception):
    """A part of the cluster did not do what it should."""


def wait_for(what: str, condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Wait until the condition is true, and return what it returned; ``Failed`` names what did not happen."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {seconds:g} s")
        time.sleep(0.1)


def server_user() -> str | None:
    """The account that servers run under: they refuse to run as root."""
    if os.getuid() != 0:
        return None
    return pwd.getpwnam("nobody").pw_name


def give_to_server(path: Path) -> None:
    """Let the servers' account own a folder and what is in it."""
    user = server_user()
    if user is not None:
        account = pwd.getpwnam(user)
        for one in (path, *path.rglob("*")):
            os.chown(one, account.pw_uid, account.pw_gid)


def run(command: Sequence[str], *, log: Path, user: str | None = None) -> None:
    """Run a command to its end; what it says goes to the log, and ``Failed`` shows the end of it."""
    with log.open("ab") as output:
        ended = subprocess.run(
            command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, user=user, check=False, cwd="/"
        )
    if ended.returncode != 0:
        raise Failed(f"{Path(command[0]).name} ended with {ended.returncode}:\n{tail(log)}")


def start(
    command: Sequence[str],
    *,
    log: Path,
    user: str | None = None,
    folder: str | Path = "/",
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, so that the terminal's signals do not reach it."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            user=user,
            cwd=folder,
            env=None if environment is None else {**os.environ, **environment},
        )


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all of its children (-9), as when their machine dies."""
    try:
        parent = psutil.Process(process.pid)
        # The parent stands still first, so that it starts no more of them.
        parent.send_signal(signal.SIGSTOP)
        for child in (*parent.children(recursive=True), parent):
            try:
                child.kill()
            except psutil.NoSuchProcess:
                continue
    except psutil.NoSuchProcess:
        pass
    process.wait()


def tail(log: Path, lines: int = 15) -> str:
    """The end of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(no log)"
