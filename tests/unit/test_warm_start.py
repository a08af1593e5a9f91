"""What is copied from a warm process is a process like any other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import warm_start

CODE = """
import os, sys
print(os.getppid(), os.getcwd(), os.environ["WORD"], "HOME" in os.environ, *sys.argv[1:], sys.stdin.read())
print("aside", file=sys.stderr)
sys.exit(3)
"""


def test_it_has_what_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(CODE)
    for command in (["-c", CODE], ["-m", "module"], [str(tmp_path / "module.py")]):
        given = {"cwd": tmp_path, "env": {"WORD": "word"}, "text": True}
        with warm_start.Popen(
            [sys.executable, *command, "one", "two"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **given,
        ) as process:
            said, aside = process.communicate("said to it")
        assert said.split() == [str(os.getpid()), str(tmp_path), "word", "False", "one", "two", "said", "to", "it"]
        assert (aside, process.returncode) == ("aside\n", 3)


def test_a_file_that_it_writes_to_stays_open(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        for word in ("one", "two"):
            warm_start.run([sys.executable, "-c", f"print('{word}')"], stdout=log, check=True)
    assert (tmp_path / "log").read_text() == "one\ntwo\n"


def test_its_libraries_are_there_and_its_state_is_its_own() -> None:
    code = "import sys; print('sqlalchemy' in sys.modules, 'warm_start' in sys.modules, __name__, len(sys.argv))"
    for _ in range(2):
        done = warm_start.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "True False __main__ 1\n"


def test_it_ends_as_processes_end() -> None:
    done = warm_start.run([sys.executable, "-c", "raise LookupError('gone')"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "LookupError: gone"
    with pytest.raises(subprocess.CalledProcessError):
        warm_start.run([sys.executable, "-c", "raise SystemExit(7)"], check=True)
    with pytest.raises(subprocess.TimeoutExpired):
        warm_start.run([sys.executable, "-c", "import time; time.sleep(600)"], timeout=0.1)
    at_exit = "import atexit; atexit.register(print, 'goodbye', flush=True)"
    assert warm_start.run([sys.executable, "-c", at_exit], stdout=subprocess.PIPE, text=True).stdout == "goodbye\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_signals_end_it(number: signal.Signals) -> None:
    code = "import time; print('up', flush=True); time.sleep(600)"
    with warm_start.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(60) == -number


def test_it_may_lead_a_session_of_its_own() -> None:
    code = "import os; print(os.getpid() == os.getsid(0) == os.getpgrp())"
    for own in (True, False):
        done = warm_start.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=own)
        assert done.stdout == f"{own}\n"


def test_orphans_of_others_are_left_to_the_system() -> None:
    code = """
import os, time
if os.fork() == 0:
    while os.getppid() == int(os.environ["PARENT"]): time.sleep(0.01)
    print(os.getppid(), flush=True)
os._exit(0)
"""
    script = f"import os; os.environ['PARENT'] = str(os.getpid())\n{code}"
    done = warm_start.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert done.stdout != f"{os.getpid()}\n"


def test_other_programs_are_started_as_usual() -> None:
    assert warm_start.run(["echo", "hello"], capture_output=True, text=True).stdout == "hello\n"
