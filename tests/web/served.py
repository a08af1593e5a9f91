"""The standalone application, served by a real gunicorn."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import warm_start

_LISTENING = re.compile(r"Listening at: (\S+)")


@contextmanager
def gunicorn(bind: str, environ: dict[str, str], workers: int = 1) -> Iterator[str]:
    """A server; where it listens."""
    command = [sys.executable, "-m", "gunicorn", "--bind", bind, "--workers", str(workers), "--threads", "4"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLOPPYJOBS")}
    server = warm_start.Popen(
        [*command, "webui:create_app()"], env={**kept, **environ}, stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stderr is not None
        for line in server.stderr:
            found = _LISTENING.search(line)
            if found:
                yield found[1]
                break
        else:
            raise AssertionError("gunicorn did not start")
    finally:
        server.terminate()
        server.communicate(timeout=30)
