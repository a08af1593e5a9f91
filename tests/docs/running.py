"""Runs a page: writes its files, executes its Python and its commands, and compares what they print."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import warm_start
from free_ports import free_port
from pages import Block, Command, Page, Step, commands, matches
from plain_commands import plain_command

SECONDS = 90
"""How long one command may take, and how long a command in the background may take to print what is expected."""

Steps = Mapping[str, Callable[["Run"], None]]
_KEPT = ("HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "LOGNAME", "SHELL")
_KEPT_PREFIXES = ("PIP_", "XDG_", "SSL_", "REQUESTS_", "HTTP", "http", "NO_PROXY", "no_proxy")


class Broken(AssertionError):
    """The page does not do what it says."""


def clean_environment(**more: str) -> dict[str, str]:
    """What a login shell has, with this Python first on PATH, and none of our variables."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # Files are rewritten faster than a compiled file's time can tell.
    return {**kept, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "TERM": "dumb", **more}


@dataclass
class Run:
    """A page that is being run in ``folder``. Use it as a context manager, so that nothing stays behind."""

    page: Page
    folder: Path
    environment: dict[str, str]
    steps: Steps = field(default_factory=dict)
    printed: str = ""
    """What the last command or Python block printed."""
    ports: dict[str, str] = field(init=False)
    started: list[subprocess.Popen[str]] = field(init=False, default_factory=list)
    """What goes on until the end of the page."""
    _python: subprocess.Popen[str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        wanted = self.page.settings.get("ports", "").replace(",", " ").split()
        self.ports = {port: str(free_port()) for port in wanted}
        self._home = self.folder

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.started:
            _tell(process, signal.SIGTERM)
        for process in self.started:
            _end(process)

    def all(self) -> None:
        """Run the whole page, or raise ``Broken`` at the first difference."""
        before: Block | None = None
        for part in self.page.parts:
            if isinstance(part, Step):
                self._step(part)
            else:
                self._block(part, before)
                before = part

    def _step(self, step: Step) -> None:
        try:
            do = self.steps[step.name]
        except KeyError:
            raise self._broken(step.line, f"nobody knows the step {step.name!r}") from None
        do(self)

    def _block(self, block: Block, before: Block | None) -> None:
        if block.not_run:
            return
        if block.title is not None:
            file = self._home / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._with_ports(block.text))
        elif block.language == "python":
            self._execute(block)
        elif block.language == "console":
            for command in commands(block):
                self._command(command)
        elif block.language == "text" and before is not None and _prints(before):
            self._compare(block.text, block.line)

    def _execute(self, block: Block) -> None:
        if self._python is None:
            interpreter = [_python_of(self.environment), str(Path(__file__).parent / "interpreter.py")]
            self._python = self._spawn(interpreter, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None)
            self.started.append(self._python)
        stdin, stdout = self._python.stdin, self._python.stdout
        assert stdin is not None and stdout is not None
        sent = {"text": self._with_ports(block.text), "path": str(self.page.path), "line": block.line}
        stdin.write(json.dumps(sent) + "\n")
        stdin.flush()
        answer = json.loads(stdout.readline() or '{"printed": "", "error": "the interpreter has ended"}')
        self.printed = answer["printed"]
        if answer["error"]:
            raise self._broken(block.line, f"{answer['error']}\n{self.printed}")

    def _command(self, command: Command) -> None:
        if command.in_background:
            self._begin(command)
            return
        state = self._home / ".state"
        text = self._with_ports(command.text)
        # What the command exports, and where it goes, is there for the next one.
        script = f'{text}\ncode=$?; {{ pwd; env -0; }} > "{state}"; exit $code'
        with tempfile.TemporaryFile("w+") as output:
            process = self._spawn(plain_command(text, self.environment) or ["sh", "-c", script], stdout=output)
            try:
                code = process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                raise self._broken(command.line, f"it takes more than {SECONDS} s: {command.text}") from None
            finally:
                if process.returncode is None:
                    _tell(process, signal.SIGKILL)
                    process.wait()
            output.seek(0)
            self.printed = output.read()
        if code:
            raise self._broken(command.line, f"exit code {code} of: {command.text}\n{self.printed}")
        if state.exists():
            where, _, variables = state.read_text().partition("\n")
            state.unlink()
            self.folder = Path(where)
            self.environment = dict(one.split("=", 1) for one in variables.split("\0") if "=" in one)
        if command.expected is not None:
            self._compare(command.expected, command.line)

    def _begin(self, command: Command) -> None:
        """Start it, and wait until it has printed what the page says."""
        log = self._home / f".background-{len(self.started)}"
        with log.open("w") as output:
            text = self._with_ports(command.text.removesuffix(" &"))
            plain = plain_command(text, self.environment)
            process = self._spawn(plain or ["sh", "-c", f"exec env {text}"], stdout=output)
        self.started.append(process)
        deadline = time.monotonic() + SECONDS
        expected = self._with_ports(command.expected or "…")
        while not matches(expected, log.read_text(), start_only=True):
            if process.poll() is not None or time.monotonic() > deadline:
                state = "goes on" if process.poll() is None else f"has ended with {process.poll()}"
                raise self._broken(command.line, f"{command.text} {state}\n{_beside(expected, log.read_text())}")
            time.sleep(0.05)

    def _spawn(
        self,
        command: list[str],
        *,
        stdout: Any,
        stdin: int = subprocess.DEVNULL,
        stderr: int | None = subprocess.STDOUT,
    ) -> subprocess.Popen[str]:
        """Start a process in a group of its own, so that it can be ended with all of its children."""
        return warm_start.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )

    def _compare(self, expected: str, line: int) -> None:
        wanted = self._with_ports(expected)
        if not matches(wanted, self.printed):
            raise self._broken(line, _beside(wanted, self.printed))

    def _with_ports(self, text: str) -> str:
        for port, free in self.ports.items():
            text = text.replace(port, free)
        return text

    def _broken(self, line: int, text: str) -> Broken:
        return Broken(f"{self.page.path}:{line}: {text}")


def _prints(block: Block) -> bool:
    return block.language == "python" and block.title is None and block.not_run is None


def _python_of(environment: Mapping[str, str]) -> str:
    return str(Path(environment["PATH"].split(os.pathsep)[0]) / "python")


def _beside(expected: str, printed: str) -> str:
    return f"--- the page says\n{expected.strip()}\n--- it printed\n{printed.strip()}"


def _tell(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal to the process and to all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _end(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        _tell(process, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
