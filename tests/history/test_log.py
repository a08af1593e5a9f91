"""The log keeps what was written, by however many processes, whenever they are killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sloppyjobs.testing.history import Log
from sloppyjobs.testing.history.entries import Fault, Healed, Started

ENTRIES = 2_000


def write_many(path: Path, number: int) -> None:
    log = Log(path)
    for attempt in range(ENTRIES):
        log.started(f"job_{number}", attempt)


def write_until_killed(path: Path, ready: Any) -> None:
    log = Log(path)
    attempt = 0
    while True:
        log.started("job_killed", attempt)
        attempt += 1
        if attempt == 100:
            ready.set()


def test_entries_of_processes_that_write_at_once_are_whole_and_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "log"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_many, args=(path, number)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    written = Log(path).of_kind(Started)
    assert Counter(entry.job_id for entry in written) == {f"job_{number}": ENTRIES for number in range(4)}
    for number in range(4):
        attempts = [entry.attempt for entry in written if entry.job_id == f"job_{number}"]
        assert attempts == list(range(ENTRIES))


def test_what_a_killed_process_wrote_is_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    writer = context.Process(target=write_until_killed, args=(path, ready))
    writer.start()
    assert ready.wait(60)
    assert writer.pid is not None
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    log = Log(path)
    log.started("job_after", 1)
    *written, last = log.of_kind(Started)
    assert [entry.attempt for entry in written] == list(range(len(written)))
    assert len(written) >= 100
    assert last.job_id == "job_after"


def test_an_entry_that_was_cut_short_harms_no_other(log: Log) -> None:
    log.started("job_1", 1)
    with log.path.open("ab") as torn:
        torn.write(b'\n{"kind":"started","at":1.0,"pi')
    log.started("job_2", 1)
    assert [entry.job_id for entry in log.of_kind(Started)] == ["job_1", "job_2"]


def test_a_disk_that_is_full_is_told(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda _file, line: len(line) - 1)
    with pytest.raises(OSError, match="not written whole"):
        log.started("job_1", 1)


def test_a_fault_is_healed_unless_its_block_fails(log: Log) -> None:
    with log.fault("primary killed"):
        pass
    with pytest.raises(ZeroDivisionError), log.fault("node 2 killed"):
        raise ZeroDivisionError
    assert [fault.what for fault in log.of_kind(Fault)] == ["primary killed", "node 2 killed"]
    assert [healed.what for healed in log.of_kind(Healed)] == ["primary killed"]
