"""Upcasts: what may be registered, and what a worker finds missing when it starts."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from sloppyjobs import DuplicateJob, InvalidOption, Jobs
from sloppyjobs.enqueue.upcasts import upcast


@pytest.fixture
def jobs() -> Jobs:
    return Jobs("sqlite://")


def older(payload: Any) -> Any:
    return payload


def test_an_upcast_is_registered_before_or_after_its_definition(jobs: Jobs) -> None:
    jobs.upcast("invoice", 1)(older)
    jobs.define("invoice", print, version=3)
    assert jobs.upcast("invoice", 2)(older) is older
    assert set(jobs.definitions.require("invoice").upcasts) == {1, 2}
    assert list(jobs.definitions.upcast_problems()) == []


def test_a_second_upcast_from_one_version_is_refused(jobs: Jobs) -> None:
    jobs.upcast("invoice", 1)(older)
    with pytest.raises(DuplicateJob, match="from version 1"):
        jobs.upcast("invoice", 1)(older)


async def _coroutine(payload: Any) -> Any:
    return payload


@pytest.mark.parametrize("function", [None, "text", lambda: None, lambda a, b: a, _coroutine])
def test_what_cannot_be_called_with_a_payload_is_refused(jobs: Jobs, function: Any) -> None:
    with pytest.raises(InvalidOption, match="upcast"):
        jobs.upcast("invoice", 1)(function)
    assert jobs.definitions.upcasts.of("invoice") == {}


def test_upcasts_of_handlers_in_processes_must_be_at_the_top_of_a_module(jobs: Jobs) -> None:
    jobs.define("invoice", handler, isolation="process", version=3)
    jobs.upcast("invoice", 1)(older)
    with pytest.raises(InvalidOption, match="top of a module"):
        jobs.upcast("invoice", 2)(lambda payload: payload)
    jobs.upcast("letter", 1)(lambda payload: payload)
    with pytest.raises(InvalidOption, match="top of a module"):
        jobs.define("letter", handler, isolation="process", version=2)


def handler(_ctx: Any, payload: Any) -> Any:
    return payload


@pytest.mark.parametrize(
    ("version", "starts", "found"),
    [
        (1, (), []),
        (2, (1,), []),
        (4, (2, 3), []),
        (2, (), ["no upcast from version 1"]),
        (4, (1, 3), ["no upcast from version 2"]),
        (3, (1,), ["no upcast from version 2"]),
        (2, (1, 2), ["from version 2 is never used"]),
    ],
)
def test_gaps_are_found(jobs: Jobs, version: int, starts: tuple[int, ...], found: list[str]) -> None:
    jobs.define("invoice", print, version=version)
    for start in starts:
        jobs.upcast("invoice", start)(older)
    problems = list(jobs.definitions.upcast_problems())
    assert len(problems) == len(found)
    assert all(part in problem for part, problem in zip(found, problems, strict=True))


def test_a_worker_logs_gaps_when_it_starts(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    jobs = Jobs(f"sqlite:///{tmp_path}/jobs.db")
    jobs.init()
    jobs.define("invoice", print, version=2)
    jobs.upcast("letter", 1)(older)
    worker = jobs.create_worker()
    with caplog.at_level(logging.WARNING, "sloppyjobs.worker"):
        worker.start()
        worker.stop()
    told = [record.getMessage() for record in caplog.records if "upcast" in record.getMessage()]
    assert [("no upcast from version 1" in told[0]), ("'letter'" in told[1])] == [True, True]
    assert len(told) == 2


def test_an_upcast_that_exits_is_a_failed_upcast(jobs: Jobs) -> None:
    def leave(_payload: Any) -> Any:
        raise SystemExit(3)

    jobs.define("invoice", print, version=2)
    jobs.upcast("invoice", 1)(leave)
    with pytest.raises(Exception, match="raised SystemExit"):
        upcast({}, None, jobs.definitions.require("invoice"))
