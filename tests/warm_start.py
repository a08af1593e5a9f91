"""Processes of Python that start fast: copies of one that has imported the libraries already.

A process that imports SQLAlchemy, Flask and this library takes most of a second of a processor for it, and the tests
start hundreds. ``Popen`` and ``run`` are those of ``subprocess``, for commands that begin with ``sys.executable``. What
they start is a process like any other, with a number, descriptors, an environment and an end of its own; only what it
imports is there already. So they are not for tests of what is imported, or of how the interpreter starts.

A warm process is asked to fork twice. Its grandchild becomes the child of the process that asked, which Linux calls a
subreaper for that moment, and can be waited for as usual. Elsewhere the processes are started as usual.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import inspect
import io
import os
import pickle
import runpy
import socket
import subprocess
import sys
import threading
import time
from typing import Any

LIBRARIES = (
    "alembic.command",
    "alembic.config",
    "alembic.op",
    "click",
    "concurrent.futures.process",
    "croniter",
    "flask.cli",
    "flask_login",
    "flask_migrate",
    "flask_sqlalchemy",
    "multiprocessing.forkserver",
    "multiprocessing.spawn",
    "pebble",
    "prometheus_client",
    "psycopg",
    "pymysql",
    "pytest",
    "rich.console",
    "sloppyjobs.admin",
    "sloppyjobs.cli.commands",
    "sloppyjobs.cli.worker",
    "sloppyjobs.flask.extension",
    "sloppyjobs.jobs",
    "sloppyjobs.storage.store",
    "sloppyjobs.testing.history",
    "sloppyjobs.worker.worker",
    "sqlalchemy.dialects.mysql.pymysql",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "sqlalchemy.orm",
    "webui",
)
"""What nearly every process of the tests imports, as far as it is installed. Not gunicorn: it looks where it is."""

SET_CHILD_SUBREAPER = 36
_asking = threading.Lock()
_asker: socket.socket | None = None


class Popen(subprocess.Popen[Any]):
    """As of ``subprocess``."""

    def _execute_child(self, *arguments: Any) -> None:
        """Start it: a private method, which the tests of this module watch."""
        start = super()._execute_child  # type: ignore[misc]
        told = inspect.signature(start).bind(*arguments).arguments
        odd = told["shell"] or told["preexec_fn"] or told["pass_fds"]
        if told["args"][0] != sys.executable or odd or not sys.platform.startswith("linux"):
            start(*arguments)
            return
        ends = [told["p2cread"], told["c2pwrite"], told["errwrite"]]
        wanted = {
            "arguments": list(map(str, told["args"][1:])),
            "folder": os.fspath(told["cwd"] or os.getcwd()),  # noqa: PTH109
            "environment": dict(os.environ if told["env"] is None else told["env"]),
            "session": told["start_new_session"],
        }
        self.pid = _copied(wanted, [end if end != -1 else standard for standard, end in enumerate(ends)])
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(told[name] for name in pipes))  # type: ignore[attr-defined]


def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[Any]:
    """As of ``subprocess``."""
    check, limit = options.pop("check", False), options.pop("timeout", None)
    if options.pop("capture_output", False):
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(command, **options) as process:
        try:
            out, error = process.communicate(timeout=limit)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, error)
    if check:
        done.check_returncode()
    return done


def _copied(wanted: dict[str, Any], descriptors: list[int]) -> int:
    """Ask for a process; its number."""
    with _asking:
        asker = _warm_process()
        message = pickle.dumps(wanted)
        _subreaper(on=True)
        try:
            socket.send_fds(asker, [len(message).to_bytes(8)], descriptors)
            asker.sendall(message)
            return int.from_bytes(asker.recv(8))
        finally:
            _subreaper(on=False)


def _warm_process() -> socket.socket:
    global _asker
    if _asker is None:
        _asker, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno())]
            warm = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        atexit.register(warm.wait)
        atexit.register(_asker.close)
    return _asker


def _subreaper(*, on: bool) -> None:
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


def _serve(asked: socket.socket) -> dict[str, Any] | None:
    """Fork for everybody who asks. Returns in each new process, with what was wanted, and at the end of the asker."""
    while True:
        head, descriptors, _, _ = socket.recv_fds(asked, 8, 3)
        if not head:
            return None
        message = b""
        while len(message) < int.from_bytes(head):
            message += asked.recv(65536)
        answer, told = os.pipe()
        between = os.fork()
        if between == 0:
            parent, number = os.getpid(), os.fork()
            if number:
                os.write(told, number.to_bytes(8))
                os._exit(0)
            asked.close()
            while os.getppid() == parent:
                time.sleep(0.0002)
            for standard, descriptor in enumerate(descriptors):
                os.dup2(descriptor, standard)
            os.closerange(3, max(*descriptors, answer, told) + 1)
            return pickle.loads(message)
        # Only then is the new process the child of the one that asked.
        os.waitpid(between, 0)
        asked.sendall(os.read(answer, 8))
        for descriptor in (*descriptors, answer, told):
            os.close(descriptor)


def _become(wanted: dict[str, Any]) -> list[str]:
    """Take on what a new process would have been given; the arguments of the interpreter."""
    if wanted["session"]:
        os.setsid()
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.path[:0] = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        binary = open(descriptor, f"{mode}b", closefd=False)  # noqa: SIM115
        lines = name == "stderr" or os.isatty(descriptor)
        errors = "backslashreplace" if name == "stderr" else "strict"
        unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
        setattr(sys, name, io.TextIOWrapper(binary, "utf-8", errors, None, lines, unbuffered))
        setattr(sys, f"__{name}__", getattr(sys, name))
    return wanted["arguments"]


def _main(kind: str, *rest: str) -> None:
    """Run what follows the interpreter in a command: ``-m`` a module, ``-c`` a text, or a script."""
    sys.orig_argv[:] = [sys.executable, kind, *rest]
    match kind:
        case "-m":
            sys.argv[:] = list(rest)
            sys.path.insert(0, os.getcwd())  # noqa: PTH109
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        case "-c":
            sys.argv[:] = ["-c", *rest[1:]]
            sys.path.insert(0, "")
            main = sys.modules["__main__"] = type(sys)("__main__")
            exec(rest[0], vars(main))
        case script:
            sys.argv[:] = [script, *rest]
            sys.path.insert(0, os.path.dirname(os.path.abspath(script)))  # noqa: PTH100, PTH120
            runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    for library in LIBRARIES:
        try:
            importlib.import_module(library)
        except ImportError:
            continue
    gc.freeze()
    found = _serve(socket.socket(fileno=int(sys.argv[1])))
    if found is not None:
        sys.path.pop(0)
        _main(*_become(found))
