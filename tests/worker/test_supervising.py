"""The supervisor of worker processes, in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import warm_start

SUPERVISOR = """
import os, signal, sys, time
from pathlib import Path

from sloppyjobs.worker.supervisor import supervise

log = Path(sys.argv[1])


def work():
    with log.open("a") as lines:
        lines.write(f"{os.getpid()} worked\\n")
    time.sleep(60)


def signal_the_first_child():
    try:
        os.mkdir(log.with_suffix(".signalled"))
    except FileExistsError:
        os.kill(os.getppid(), signal.SIGTERM)
    else:
        log.write_text(f"{os.getpid()} is signalled\\n")
        os.kill(os.getpid(), signal.SIGTERM)


# Runs in a child before the supervisor's own code does: the worst moment for a signal.
os.register_at_fork(after_in_child=signal_the_first_child)
sys.exit(supervise(work, 1, shutdown_timeout=30.0))
"""


IGNORED_CHILDREN = """
import os, signal, sys, time
from sloppyjobs.worker.supervisor import supervise


def work():
    try:
        os.mkdir(sys.argv[1])
    except FileExistsError:
        os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(60)
    sys.exit("this one ends")


# As whatever has started this program may leave it.
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
code = supervise(work, 1, shutdown_timeout=30.0)
assert signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
sys.exit(code)
"""

NO_FORK = """
import os, resource, signal, sys, time
from sloppyjobs.worker.supervisor import supervise


def work():
    print("worked", flush=True)
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(60)


def room(_number, _frame):
    resource.setrlimit(resource.RLIMIT_NPROC, (before, before))


# The limit does not hold for root.
if os.getuid() == 0:
    os.setuid(65534)
before = resource.getrlimit(resource.RLIMIT_NPROC)[1]
resource.setrlimit(resource.RLIMIT_NPROC, (0, before))
signal.signal(signal.SIGALRM, room)
signal.setitimer(signal.ITIMER_REAL, 0.5)
sys.exit(supervise(work, 1, shutdown_timeout=30.0))
"""


def run(script: str, *arguments: str) -> tuple[int, str, str]:
    """The exit code, and what was said on both ways out."""
    supervisor = warm_start.Popen(
        [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        out, err = supervisor.communicate(timeout=60)
    finally:
        supervisor.kill()
    return supervisor.returncode, out, err


def test_a_supervisor_whose_parent_ignored_ended_children_sees_how_its_own_end(tmp_path: Path) -> None:
    code, _, said = run(IGNORED_CHILDREN, str(tmp_path / "worked"))
    assert code == 0, said
    assert "worker process 1 ended with exit code 1" in said


def test_a_process_that_cannot_be_forked_now_is_started_later() -> None:
    code, out, said = run(NO_FORK)
    assert (code, out) == (0, "worked\n"), said
    assert "worker process 1 cannot be started, and is tried again in 1.0 s" in said


def test_a_signal_in_the_moment_of_the_fork_ends_the_child(tmp_path: Path) -> None:
    log = tmp_path / "log"
    supervisor = warm_start.Popen([sys.executable, "-c", SUPERVISOR, str(log)], stderr=subprocess.PIPE, text=True)
    try:
        _, said = supervisor.communicate(timeout=60)
    finally:
        supervisor.kill()
    assert supervisor.returncode == 0
    first = log.read_text().split()[0]
    assert f"{first} worked" not in log.read_text(), said
    assert f"ended with {signal.Signals.SIGTERM.name}" in said
    assert "killing" not in said


TWO_CHILDREN = """
import os, sys
from pathlib import Path

from sqlalchemy import create_engine, text

from sloppyjobs.worker.supervisor import supervise

log = Path(sys.argv[1])
other = create_engine(sys.argv[2])
memory = create_engine("sqlite://")
asked = text("SELECT pg_backend_pid()")
with other.connect() as connection:
    used = connection.execute(asked).scalar_one()
with memory.begin() as connection:
    connection.execute(text("CREATE TABLE words (word TEXT)"))


def work():
    with other.connect() as connection, memory.connect() as words:
        words.execute(text("SELECT * FROM words"))
        with log.open("a") as lines:
            lines.write(f"{connection.execute(asked).scalar_one()}\\n")
    return True


code = supervise(work, 2)
with other.connect() as connection:
    assert connection.execute(asked).scalar_one() == used, "the parent keeps its own"
with log.open("a") as lines:
    lines.write(f"{used}\\n")
sys.exit(code)
"""


def test_workers_share_no_connection_that_the_application_opened_before_they_were_forked(
    tmp_path: Path, postgres_url: str
) -> None:
    log = tmp_path / "log"
    url = postgres_url.replace("postgresql://", "postgresql+psycopg://")
    command = [sys.executable, "-c", TWO_CHILDREN, str(log), url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert len(set(log.read_text().split())) == 3
