"""Log records know their jobs, and jobs keep their log records."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import sloppyjobs
from sloppyjobs import InvalidOption, Jobs, Retry, Worker
from sloppyjobs.logs import FIELDS, OWN_LOGGERS, JobFilter, JsonFormatter, TextFormatter, job_fields
from sloppyjobs.testing import drain
from sloppyjobs.worker.reports import LOG_LINES

Start = Callable[..., Worker]

log = logging.getLogger("shop.orders")


@pytest.fixture
def database_url(ready_sqlite_url: str) -> str:
    return ready_sqlite_url


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    """What a handler of the application gets to see."""
    seen: list[logging.LogRecord] = []

    class Seeing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record)

    handler = Seeing()
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    yield seen
    log.removeHandler(handler)
    log.setLevel(before)


def fields(record: logging.LogRecord) -> tuple[Any, ...]:
    return tuple(getattr(record, name) for name in FIELDS)


def test_records_of_threads_and_coroutines_carry_their_own_jobs(
    jobs: Jobs, start: Start, records: list[logging.LogRecord]
) -> None:
    threads, coroutines = threading.Barrier(3), asyncio.Barrier(3)

    @jobs.define("in-thread", queue="slow")
    def in_thread(ctx: Any, payload: Any) -> None:
        threads.wait(60)
        log.info("thread")

    @jobs.define("in-coroutine")
    async def in_coroutine(ctx: Any, payload: Any) -> None:
        async def further() -> None:
            await coroutines.wait()
            log.info("coroutine")

        await asyncio.create_task(further())

    ran = [jobs.enqueue(name, correlation_id=f"c-{n}") for n in range(3) for name in ("in-thread", "in-coroutine")]
    start(concurrency=6)
    for job in ran:
        jobs.wait(job.id, 60)
    expected = {(job.id, job.name, job.queue, 1, job.correlation_id) for job in ran}
    assert {fields(record) for record in records} == expected
    assert job_fields() == {}


def test_a_job_without_a_correlation_id_is_its_own(jobs: Jobs, records: list[logging.LogRecord]) -> None:
    jobs.define("say", lambda ctx, payload: log.info("said"))
    job = jobs.enqueue("say")
    drain(jobs)
    assert fields(records[0]) == (job.id, "say", "default", 1, job.id)


def test_what_the_application_sets_itself_stays(jobs: Jobs, records: list[logging.LogRecord]) -> None:
    jobs.define("say", lambda ctx, payload: log.info("said", extra={"queue": "at the till"}))
    job = jobs.enqueue("say")
    drain(jobs)
    log.info("outside")
    assert (records[0].queue, records[0].job_id) == ("at the till", job.id)  # type: ignore[attr-defined]
    assert fields(records[1]) == (None, None, None, None, None)


def test_json_lines_hold_the_job_the_extras_and_the_traceback() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(JobFilter())
    handler.setFormatter(JsonFormatter())
    logger = logging.Logger("alone")
    logger.addHandler(handler)
    try:
        raise ValueError("\ud800 is no text")
    except ValueError:
        logger.exception("order %d failed", 7, extra={"order": {"id": 7}, "rate": float("nan"), "odd": object})
    line = json.loads(written.getvalue())
    assert (line["level"], line["logger"], line["message"]) == ("error", "alone", "order 7 failed")
    assert "ValueError" in line["exception"]
    assert "job_id" not in line
    assert line["rate"] == "nan"
    assert line["time"].endswith("+00:00")


def test_text_lines_name_the_job() -> None:
    record = logging.makeLogRecord({"msg": "paid", "name": "shop", "levelname": "INFO"})
    assert TextFormatter().format(record).endswith("INFO    shop: paid")
    record.job_id, record.job_name, record.attempt = "job_1", "charge", 2
    assert TextFormatter().format(record).endswith("INFO    shop: paid [charge job_1 attempt 2]")


def lines(jobs: Jobs, job_id: str) -> list[tuple[str, str]]:
    return [(line.level, line.message) for line in jobs.admin.logs(job_id)]


def test_captured_logs_are_kept_with_their_jobs(jobs: Jobs, start: Start, records: list[logging.LogRecord]) -> None:
    @jobs.define("say")
    def say(ctx: Any, payload: Any) -> None:
        log.debug("not kept")
        log.info("kept of %s", payload)
        ctx.log("info", "said by the context")
        try:
            raise ValueError("oh")
        except ValueError:
            log.exception("failed")

    one, two = jobs.enqueue("say", "one"), jobs.enqueue("say", "two")
    worker = start(capture_logs=True)
    for job in (one, two):
        jobs.wait(job.id, 60)
        kept = lines(jobs, job.id)
        assert [level for level, _ in kept] == ["info", "info", "error"]
        assert "Traceback" in kept[2][1]
    assert lines(jobs, one.id)[0] == ("info", "kept of one")
    worker.stop()
    assert not any(type(handler).__name__ == "CaptureHandler" for handler in logging.root.handlers)


def test_a_definition_decides_over_its_own_logs(jobs: Jobs, records: list[logging.LogRecord]) -> None:
    def say(ctx: Any, payload: Any) -> None:
        log.info("in passing")
        log.error("in earnest")

    jobs.define("nothing", say, capture_logs=False)
    jobs.define("errors", say, capture_logs="error")
    jobs.define("as-the-worker", say)
    made = {name: jobs.enqueue(name).id for name in ("nothing", "errors", "as-the-worker")}
    jobs.create_worker(capture_logs=logging.INFO, recurring=False).run_once()
    assert {name: len(lines(jobs, job_id)) for name, job_id in made.items()} == {
        "nothing": 0,
        "errors": 1,
        "as-the-worker": 2,
    }


@pytest.mark.parametrize("how", ["worker", "run_once"])
def test_captured_logs_are_bounded_for_a_job_over_all_its_attempts(
    jobs: Jobs, start: Start, records: list[logging.LogRecord], how: str
) -> None:
    @jobs.define("chatter", capture_logs=True, retry=Retry(max_attempts=3, backoff="none"))
    def chatter(ctx: Any, payload: Any) -> None:
        log.info("x" * 100_000)
        for number in range(LOG_LINES // 2):
            log.info("line %d", number)
        if ctx.attempt < 3:
            raise ValueError

    job = jobs.enqueue("chatter")
    if how == "worker":
        start()
        jobs.wait(job.id, 60)
    else:
        drain(jobs)
    with jobs.storage.engine.connect() as connection:
        kept = connection.exec_driver_sql("SELECT count(*), max(length(message)) FROM sloppy_job_logs").one()
    assert kept[0] == LOG_LINES + 1
    assert kept[1] < 5_000
    assert jobs.get(job.id).status == "succeeded"
    (last,) = jobs.admin.logs(job.id, page_size=500, cursor=last_cursor(jobs, job.id)).items[-1:]
    said = 3 * (LOG_LINES // 2 + 1)
    assert (last.level, last.message, last.attempt_number) == (
        "warning",
        f"{said - LOG_LINES} further lines were left out",
        3,
    )


def last_cursor(jobs: Jobs, job_id: str) -> str | None:
    """Where the last page begins."""
    cursor = None
    while (following := jobs.admin.logs(job_id, page_size=500, cursor=cursor).next_cursor) is not None:
        cursor = following
    return cursor


def test_one_attempt_that_says_too_much_is_told_so(jobs: Jobs) -> None:
    @jobs.define("chatter")
    def chatter(ctx: Any, payload: Any) -> None:
        for number in range(LOG_LINES + 1):
            ctx.log("info", f"line {number}")

    job = jobs.enqueue("chatter")
    drain(jobs)
    last = jobs.admin.logs(job.id, page_size=500, cursor=last_cursor(jobs, job.id)).items[-1]
    assert last.message == "1 further line was left out"


def test_a_handler_that_goes_on_after_its_time_is_not_heard_any_more(
    jobs: Jobs, start: Start, eventually: Callable[..., Any]
) -> None:
    going, gone = threading.Event(), threading.Event()

    @jobs.define("slow", timeout=0.2, retry=Retry(max_attempts=1))
    def slow(ctx: Any, payload: Any) -> None:
        ctx.log("info", "in time")
        going.wait(60)
        for _ in range(10):
            ctx.log("info", "too late")
        gone.set()

    job = jobs.enqueue("slow")
    worker = start()
    jobs.wait(job.id, 60)
    going.set()
    assert gone.wait(60)
    worker.stop()
    assert lines(jobs, job.id) == [("info", "in time")]


def test_a_record_that_cannot_be_formatted_harms_nothing(
    jobs: Jobs, records: list[logging.LogRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    jobs.define("say", lambda ctx, payload: log.info("%d", "no number"), capture_logs=True)
    job = jobs.enqueue("say")
    drain(jobs)
    assert jobs.get(job.id).status == "succeeded"


@pytest.fixture
def broken_log() -> Iterator[list[str]]:
    """A logging handler of the application that raises, as when its server of logs is away; what it was given."""
    given: list[str] = []

    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            given.append(record.getMessage())
            raise ConnectionError(f"nobody takes {given[-1]}")

    handler, logger = Broken(logging.WARNING), logging.getLogger("sloppyjobs")
    logger.addHandler(handler)
    yield given
    logger.removeHandler(handler)


def test_a_logging_handler_that_raises_in_an_outage_ends_no_thread(
    jobs: Jobs, start: Start, eventually: Callable[..., Any], broken_log: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def beats() -> list[datetime]:
        return [worker.heartbeat_at for worker in jobs.admin.list_workers()]

    start(heartbeat=0.1)
    first = eventually(beats)
    with jobs.storage.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE sloppy_job_workers RENAME TO away")
    eventually(lambda: any("renewing the leases failed" in said for said in broken_log))
    with jobs.storage.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE away RENAME TO sloppy_job_workers")
    eventually(lambda: beats() > first)
    told = capsys.readouterr().err
    assert "a record of sloppyjobs.worker was lost: its logging handler or filter raised ConnectionError" in told
    assert "renewing the leases" not in told


def test_a_logging_handler_that_raises_costs_no_slot_and_no_later_record(
    jobs: Jobs, start: Start, eventually: Callable[..., Any], broken_log: list[str]
) -> None:
    @jobs.define("hold")
    def hold(ctx: Any, payload: Any) -> None:
        ctx.signal.wait(60)

    @jobs.define("fail", retry=Retry(max_attempts=1))
    def fail(ctx: Any, payload: Any) -> None:
        raise ValueError("no")

    start(concurrency=1, heartbeat=0.1)
    held = jobs.enqueue("hold")
    eventually(lambda: jobs.get(held.id).status == "processing")
    jobs.admin.cancel(held.id)
    failed = [jobs.enqueue("fail") for _ in range(2)]
    for job in failed:
        assert jobs.wait(job.id, 60).status == "dead"
        eventually(lambda job=job: any(f"job {job.id} (fail) is dead" in said for said in broken_log))


@pytest.mark.parametrize("level", ["loud", 1.5, []])
def test_levels_that_do_not_exist_are_refused(jobs: Jobs, level: Any) -> None:
    with pytest.raises(InvalidOption, match="capture_logs"):
        jobs.create_worker(capture_logs=level)
    with pytest.raises(InvalidOption, match="capture_logs"):
        jobs.define("say", lambda ctx, payload: None, capture_logs=level)


CANARY = "canary-7f3a9b"


@pytest.mark.parametrize(
    "formatter", [TextFormatter(), JsonFormatter(), logging.Formatter()], ids=["text", "json", "other"]
)
def test_what_the_library_logs_holds_no_secret(jobs: Jobs, formatter: logging.Formatter) -> None:
    jobs.define("fail", lambda ctx, payload: 1 / 0, retry=Retry(max_attempts=1))

    @jobs.on_dead
    def tell(job: Any) -> None:
        raise ValueError(f"cannot tell with --token {CANARY}")

    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logging.getLogger("sloppyjobs").addHandler(handler)
    try:
        jobs.enqueue("fail", {"password": CANARY}, correlation_id=f"password={CANARY}")
        drain(jobs)
        logging.getLogger("sloppyjobs.worker").error("lost: %s", f"Key (api_key)=({CANARY}) already exists")
    finally:
        logging.getLogger("sloppyjobs").removeHandler(handler)
    assert "cannot tell with" in stream.getvalue() and "already exists" in stream.getvalue()
    assert CANARY not in stream.getvalue()


def test_a_correlation_id_on_records_holds_no_secret(jobs: Jobs) -> None:
    jobs.define("say", lambda ctx, payload: seen.update(job_fields()))
    seen: dict[str, Any] = {}
    jobs.enqueue("say", correlation_id=f"password={CANARY}")
    drain(jobs)
    assert CANARY not in str(seen) and seen["job_name"] == "say"


def test_every_logger_of_the_library_hides_secrets() -> None:
    package = Path(sloppyjobs.__file__).parent
    named = {
        name
        for file in package.rglob("*.py")
        for name in re.findall(r'(?:getLogger|get_logger)\("(sloppyjobs[\w.]*)"\)', file.read_text())
    }
    assert named == set(OWN_LOGGERS)
