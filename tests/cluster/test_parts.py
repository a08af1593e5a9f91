"""The parts of ``make cluster`` that need no server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from cluster import galera, progress
from cluster.application import Producer
from cluster.load import Load
from cluster.ports import free_ports
from cluster.processes import Failed, kill_tree, run, start, tail, wait_for
from sloppyjobs import Jobs
from sloppyjobs.testing import drain
from sloppyjobs.testing.history import Log, assert_sound, record_handlers
from sloppyjobs.testing.history.entries import Committed, Enqueued, EnqueueFailed, Locked, RolledBack

PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; print(1); time.sleep(600)'])"


def test_lines_are_no_wider_than_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    progress.say("a step with a long description " * 6)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 80


def test_ports_are_different_ones() -> None:
    assert len(set(free_ports(16))) == 16


def test_what_does_not_happen_is_named() -> None:
    with pytest.raises(Failed, match="the moon rises: not within 0 s"):
        wait_for("the moon rises", lambda: False, seconds=0)
    assert wait_for("it is there", lambda: "found") == "found"


def test_a_command_that_fails_shows_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(Failed, match="ended with 3:\nno such luck"):
        run([sys.executable, "-c", "print('no such luck'); raise SystemExit(3)"], log=log)
    assert tail(tmp_path / "nothing") == "(no log)"


def test_children_are_killed_with_their_parent(tmp_path: Path) -> None:
    log = tmp_path / "log"
    parent = start([sys.executable, "-c", PARENT], log=log)
    wait_for("the child runs", log.read_text)
    (child,) = psutil.Process(parent.pid).children()
    kill_tree(parent)
    assert parent.returncode == -9
    wait_for("the child is gone", lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_a_producer_enqueues_in_every_way_and_the_history_is_sound(ready_sqlite_url: str, tmp_path: Path) -> None:
    jobs, log = Jobs(ready_sqlite_url), Log(tmp_path / "history.log")
    jobs.define("work", lambda _ctx, _payload: None)
    jobs.define("stumble", lambda _ctx, _payload: None)
    record_handlers(jobs, log)
    producer = Producer(jobs, log)
    producer.with_key(1)
    producer.with_key(1)
    producer.plain(2)
    producer.bulk(3)
    producer.later(4)
    producer.in_transaction(5)
    producer.rolled_back(6)
    producer.under_a_lock(7)
    written = log.entries()
    kinds = {kind: sum(isinstance(entry, kind) for entry in written) for kind in (Committed, RolledBack, Locked)}
    assert kinds == {Committed: 1, RolledBack: 1, Locked: 1}
    assert len(log.of_kind(Enqueued)) == 17
    assert not log.of_kind(EnqueueFailed)
    drain(jobs)
    assert_sound(jobs, log)
    jobs.storage.close()


def test_a_process_of_the_load_that_dies_ends_the_run(tmp_path: Path) -> None:
    load = Load(tmp_path, ["nonsense://jobs"])
    try:
        with pytest.raises(Failed, match="ended with 1"):
            load.start(workers=0, producers=1)
    finally:
        load.kill()


def test_help_names_the_parts() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "cluster", "--help"],
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "standby" in shown.stdout
    assert "pooler" in shown.stdout
    assert "galera" in shown.stdout


def test_a_missing_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(galera, "PROVIDER", tmp_path / "libgalera_smm.so")
    with pytest.raises(Failed, match=r"ensure_servers\.sh installs it on Debian"):
        galera.Node(tmp_path, "node0", free_ports(4)).create()
