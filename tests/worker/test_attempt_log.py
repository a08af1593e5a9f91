"""How attempts end is in the worker's log, for people, mail handlers and reporters."""

from __future__ import annotations

import email
import email.policy
import io
import json
import logging
import logging.handlers
import socketserver
import threading
import traceback
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, ClassVar

import pytest

from sloppyjobs import Cancel, InvalidOption, Jobs, Retry, Snooze, Worker
from sloppyjobs.errors import HandlerFailed
from sloppyjobs.logs import JsonFormatter, TextFormatter
from sloppyjobs.testing import drain
from sloppyjobs.worker.observe import attempt_log

Start = Callable[..., Worker]
Eventually = Callable[..., Any]

ONCE, TWICE = Retry(max_attempts=1), Retry(max_attempts=2, backoff="fixed", initial=60, jitter=False)
CANARY = "c4n4ry-51"

log = logging.getLogger("sloppyjobs.attempts")


class Seeing(logging.Handler):
    """What a logging handler of the application gets."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def of(self, outcome: str) -> list[Any]:
        return [record for record in self.records if getattr(record, "outcome", None) == outcome]


@pytest.fixture
def database_url(ready_sqlite_url: str) -> str:
    return ready_sqlite_url


@pytest.fixture
def seen() -> Iterator[Seeing]:
    handler = Seeing()
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    yield handler
    log.removeHandler(handler)
    log.setLevel(before)


def fail(ctx: Any, payload: Any) -> None:
    """At the top of a module, so that another process finds it."""
    secret = payload["password"]
    raise LookupError(f"no user\nwith password={secret}")


async def fail_as_coroutine(ctx: Any, payload: Any) -> None:
    fail(ctx, payload)


def run(jobs: Jobs, start: Start, seen: Seeing, eventually: Eventually, how: str) -> None:
    if how == "drain":
        drain(jobs)
    else:
        start(concurrency=2)
        eventually(lambda: seen.records, 60)


# What is logged


@pytest.mark.parametrize(
    ("how", "handler", "isolation"),
    [
        ("worker", fail, "thread"),
        ("worker", fail_as_coroutine, "async"),
        pytest.param("worker", fail, "process", marks=pytest.mark.slow),
        ("drain", fail, "thread"),
        ("drain", fail_as_coroutine, "async"),
    ],
)
def test_a_dead_job_is_an_error_with_the_redacted_exception(
    jobs: Jobs, start: Start, seen: Seeing, eventually: Eventually, how: str, handler: Any, isolation: Any
) -> None:
    jobs.define("find-user", handler, isolation=isolation, retry=ONCE, queue="users")
    job = jobs.enqueue("find-user", {"password": CANARY}, correlation_id="request-7")
    run(jobs, start, seen, eventually, how)
    (record,) = seen.of("dead")
    assert record.levelname == "ERROR"
    assert record.getMessage() == (
        f"job {job.id} (find-user) is dead: it failed in attempt 1 of 1: "
        r"LookupError: no user\nwith password=[redacted]"
    )
    assert (record.job_id, record.job_name, record.queue, record.attempt) == (job.id, "find-user", "users", 1)
    assert (record.correlation_id, record.max_attempts) == ("request-7", 1)
    assert (record.error_type, record.error_code) == ("LookupError", HandlerFailed.code)
    assert record.error_frame.endswith(":fail")
    kind, error, trace = record.exc_info
    assert (kind.__name__, kind.__module__) == ("LookupError", "builtins")
    assert isinstance(error, HandlerFailed)
    assert str(error) == r"no user\nwith password=[redacted]"
    assert "secret = payload" not in record.exc_text
    assert "in fail\n" in record.exc_text
    assert [name for name in functions(trace) if name.startswith("fail")][-1] == "fail"
    assert CANARY not in everything(record)


def functions(trace: TracebackType) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(trace)]


def everything(record: Any) -> str:
    """All that a reporter could send: the record, its text, the traceback, and the variables of its frames."""
    frames = [frame for frame, _ in traceback.walk_tb(record.exc_info[2])] if record.exc_info else []
    return " ".join(
        [
            str(record.__dict__),
            logging.Formatter().format(record),
            *(traceback.format_exception(record.exc_info[1]) if record.exc_info else ()),
            *(str(frame.f_locals) for frame in frames),
        ]
    )


def test_the_frames_of_the_exception_are_those_of_the_handler_and_hold_no_variables(jobs: Jobs, seen: Seeing) -> None:
    jobs.define("find-user", fail, retry=ONCE)
    jobs.enqueue("find-user", {"password": CANARY})
    drain(jobs)
    (record,) = seen.of("dead")
    walked = list(traceback.walk_tb(record.exc_info[2]))
    frame, line = walked[-1]
    assert (frame.f_code.co_filename, frame.f_code.co_name) == (__file__, "fail")
    assert frame.f_globals["__name__"] == __name__
    assert "raise LookupError" in str(traceback.extract_tb(record.exc_info[2])[-1].line)
    assert line == fail.__code__.co_firstlineno + 3
    assert all(frame.f_locals == {} for frame, _ in walked)


def test_a_failed_attempt_is_a_warning_that_says_when_the_next_is(jobs: Jobs, seen: Seeing) -> None:
    jobs.define("find-user", fail, retry=TWICE)
    job = jobs.enqueue("find-user", {"password": CANARY})
    drain(jobs)
    (record,) = seen.records
    assert (record.levelname, record.outcome, record.retry_in, record.exc_info) == ("WARNING", "retrying", 60, None)
    assert record.getMessage() == (
        f"job {job.id} (find-user) failed in attempt 1 of 2, next try in 60 s: "
        r"LookupError: no user\nwith password=[redacted]"
    )
    assert CANARY not in everything(record)


@pytest.mark.parametrize(("retry", "level", "said"), [(TWICE, "WARNING", "timed out"), (ONCE, "ERROR", "is dead")])
def test_a_timeout_is_said(jobs: Jobs, seen: Seeing, retry: Retry, level: str, said: str) -> None:
    jobs.define("slow", lambda ctx, payload: ctx.signal.wait(60), timeout=0.05, retry=retry)
    jobs.enqueue("slow")
    drain(jobs)
    (record,) = seen.records
    assert (record.levelname, record.error_type) == (level, "sloppyjobs.errors.JobTimeout")
    assert said in record.getMessage()
    assert "timed out in attempt 1 of" in record.getMessage()
    assert "did not finish within 0.05 s" in record.getMessage()
    assert (record.exc_info is not None) == (level == "ERROR"), "so that it can be grouped"


def test_a_lost_attempt_is_logged_by_the_worker_that_finds_it(
    jobs: Jobs, start: Start, seen: Seeing, eventually: Eventually
) -> None:
    jobs.declare("once", retry=ONCE)
    jobs.declare("twice", retry=TWICE)
    once, twice = jobs.enqueue("once"), jobs.enqueue("twice")
    assert len(jobs.claim("gone", limit=2, lease=0.05)) == 2
    start()
    eventually(lambda: len(seen.records) == 2, 30)
    (dead,), (lost,) = seen.of("dead"), seen.of("lost")
    assert (dead.levelname, dead.job_id, lost.levelname, lost.job_id) == ("ERROR", once.id, "WARNING", twice.id)
    assert lost.getMessage() == f"job {twice.id} (twice) lost its worker gone in attempt 1; it is queued"
    assert lost.worker_id == "gone"
    assert dead.exc_info is not None


def test_what_is_no_failure_is_said_quietly(jobs: Jobs, seen: Seeing) -> None:
    jobs.define("well", lambda ctx, payload: None)
    jobs.define("later", lambda ctx, payload: Snooze(90))
    jobs.define("never", lambda ctx, payload: Cancel(f"not wanted\nany more, token={CANARY}"))
    well, later, never = (jobs.enqueue(name).id for name in ("well", "later", "never"))
    drain(jobs)
    said = {(record.levelname, record.getMessage().partition(" after ")[0]) for record in seen.records}
    assert said == {
        ("DEBUG", f"job {well} (well) succeeded in attempt 1 of 3"),
        ("INFO", f"job {later} (later) asks to be called again in 90 s"),
        ("INFO", rf"job {never} (never) was cancelled by its handler: not wanted\nany more, token=[redacted]"),
    }


def test_successes_make_no_records_unless_somebody_wants_them(
    jobs: Jobs, start: Start, seen: Seeing, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.setLevel(logging.INFO)
    asked: list[int] = []
    enabled = log.isEnabledFor
    monkeypatch.setattr(log, "isEnabledFor", lambda level: asked.append(level) or enabled(level))
    jobs.define("well", lambda ctx, payload: None)
    made = jobs.enqueue_many([("well", number) for number in range(400)])
    worker = start()
    for job in made:
        jobs.wait(job.id, 60)
    assert seen.records == []
    assert 0 < len(asked) <= worker._loop.turns + 1, "once for a turn, not for every job"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("all", {"succeeded", "snoozed", "retrying", "dead"}),
        ("failures", {"retrying", "dead"}),
        ("dead", {"dead"}),
        ("none", set()),
    ],
)
def test_a_definition_decides_what_is_logged_of_it(jobs: Jobs, seen: Seeing, policy: Any, expected: set[str]) -> None:
    @jobs.define("varied", log=policy, retry=TWICE)
    def varied(ctx: Any, payload: Any) -> Any:
        match payload:
            case "well":
                return None
            case "later":
                return Snooze(60)
            case _:
                raise ValueError(payload)

    for payload in ("well", "later", "badly"):
        jobs.enqueue("varied", payload)
    jobs.enqueue("varied", "badly", max_attempts=1)
    drain(jobs)
    assert {record.outcome for record in seen.records} == expected  # type: ignore[attr-defined]


def test_a_policy_that_does_not_exist_is_refused(jobs: Jobs) -> None:
    with pytest.raises(InvalidOption, match=r"log='some': must be one of 'all', 'failures', 'dead', 'none'"):
        jobs.define("varied", lambda ctx, payload: None, log="some")  # type: ignore[call-overload]


def test_a_worker_written_by_others_logs_where_it_settles(jobs: Jobs, seen: Seeing) -> None:
    jobs.declare("elsewhere", redact=("colour",))
    job = jobs.enqueue("elsewhere", max_attempts=1)
    (claim,) = Jobs(jobs.storage).claim("w1")
    stranger = Jobs(jobs.storage)
    assert stranger.fail(claim, f"colour={CANARY}")
    (record,) = seen.of("dead")
    assert (record.job_id, record.exc_info is None) == (job.id, False)
    assert CANARY not in everything(record), "the keys that others have stored are hidden too"


# What cannot be forged


def test_a_logger_of_the_application_s_own_class_gets_the_fields(
    jobs: Jobs, seen: Seeing, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Keeping(logging.Logger):
        def makeRecord(self, *arguments: Any, extra: Any = None, **others: Any) -> logging.LogRecord:  # noqa: N802
            record = super().makeRecord(*arguments, extra=extra, **others)
            record.given = dict(extra)
            return record

    logger = Keeping("sloppyjobs.attempts", logging.DEBUG)
    logger.addHandler(seen)
    monkeypatch.setattr(attempt_log, "log", logger)
    jobs.define("task", fail, retry=ONCE)
    job = jobs.enqueue("task", {"password": CANARY})
    drain(jobs)
    (record,) = seen.of("dead")
    assert record.given["job_id"] == record.job_id == job.id


def test_a_record_factory_that_has_the_same_fields_loses_no_record(jobs: Jobs, seen: Seeing) -> None:
    factory = logging.getLogRecordFactory()

    def make(*arguments: Any, **others: Any) -> logging.LogRecord:
        record = factory(*arguments, **others)
        record.job_id, record.request_id = None, "r-1"
        return record

    jobs.define("task", fail, retry=ONCE)
    job = jobs.enqueue("task", {"password": CANARY})
    logging.setLogRecordFactory(make)
    try:
        drain(jobs)
    finally:
        logging.setLogRecordFactory(factory)
    (record,) = seen.of("dead")
    assert (record.job_id, record.request_id) == (job.id, "r-1")


def test_names_and_errors_forge_no_lines(jobs: Jobs) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(TextFormatter())
    forged = "2030-01-01 00:00:00,000 ERROR   root: forged"
    name = f"odd\n{forged}\r\x1b[31m\u2028"

    @jobs.define(name, queue=f"queue\n{forged}", retry=ONCE)
    def odd(ctx: Any, payload: Any) -> None:
        logging.getLogger("shop").error("said by the handler")
        raise type(f"Odd\n{forged}", (Exception,), {})(f"text\n{forged}\x1b[31m\r\n{forged}")

    jobs.enqueue(name, correlation_id=f"c\n{forged}")
    logging.root.addHandler(handler)
    try:
        drain(jobs)
    finally:
        logging.root.removeHandler(handler)
    lines = written.getvalue().split("\n")
    assert not [line for line in lines if line.startswith("2030")]
    assert not set("\r\x1b\u2028") & set(written.getvalue())
    records = [line for line in lines if line and not line.startswith("  ")]
    assert len(records) == 2, records


def test_fields_of_records_are_on_one_line_and_without_secrets(jobs: Jobs, seen: Seeing) -> None:
    inside = Seeing()
    logging.getLogger("shop").addHandler(inside)
    jobs.define("odd\nname", lambda ctx, payload: logging.getLogger("shop").error("said"), queue="odd\nqueue")
    jobs.enqueue("odd\nname", correlation_id=f"token={CANARY}")
    drain(jobs)
    logging.getLogger("shop").removeHandler(inside)
    for record in (*seen.records, *inside.records):
        known: Any = record
        assert (known.job_name, known.queue) == (r"odd\nname", r"odd\nqueue")
        assert known.correlation_id == "token=[redacted]"


def test_a_json_line_holds_the_traceback_and_the_job(jobs: Jobs) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    jobs.define("find-user", fail, retry=ONCE)
    job = jobs.enqueue("find-user", {"password": CANARY})
    log.addHandler(handler)
    try:
        drain(jobs)
    finally:
        log.removeHandler(handler)
    (line,) = map(json.loads, written.getvalue().splitlines())
    assert (line["job_id"], line["outcome"], line["attempt"], line["level"]) == (job.id, "dead", 1, "error")
    assert "in fail\n" in line["exception"]
    assert CANARY not in written.getvalue()


# What slow and broken handlers do


def test_a_handler_that_hangs_holds_up_no_jobs(
    jobs: Jobs, start: Start, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = threading.Event()
    entered = threading.Event()
    said: list[str] = []

    class Hanging(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())
            entered.set()
            going.wait(60)

    monkeypatch.setattr(attempt_log, "QUEUE_LIMIT", 10)
    jobs.define("fail", fail, retry=ONCE)
    jobs.define("well", lambda ctx, payload: "done")
    handler = Hanging()
    log.addHandler(handler)
    try:
        worker = start()
        jobs.enqueue("fail", {"password": "x"})
        assert entered.wait(30)
        made = jobs.enqueue_many([("fail", {"password": "x"})] * 50)
        for job in made:
            jobs.wait(job.id, 30)
        assert jobs.wait(jobs.enqueue("well").id, 30).result == "done"
        assert len(said) == 1
        going.set()
        eventually(lambda: any("were not logged" in one for one in said), 30)
        worker.stop()
    finally:
        going.set()
        log.removeHandler(handler)
    assert "40 attempts were not logged: the logging handlers are too slow" in said


def test_a_handler_that_raises_harms_nothing(jobs: Jobs, start: Start, seen: Seeing, eventually: Eventually) -> None:
    class Raising(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("no room")

    handler = Raising()
    log.addHandler(handler)
    jobs.define("fail", fail, retry=ONCE)
    made = [jobs.enqueue("fail", {"password": "x"}).id for _ in range(3)]
    try:
        start()
        eventually(lambda: len(seen.of("dead")) == 3, 30)
    finally:
        log.removeHandler(handler)
    assert {jobs.get(id).status for id in made} == {"dead"}


class Mailbox(socketserver.StreamRequestHandler):
    """As much of SMTP as a mail handler speaks."""

    mails: ClassVar[list[str]] = []

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while command := self.rfile.readline().split(b" ")[0].strip().upper():
            if command == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = list(iter(self.rfile.readline, b".\r\n"))
                self.mails.append(b"".join(lines).decode())
            self.wfile.write(b"221 bye\r\n" if command == b"QUIT" else b"250 ok\r\n")


def test_a_dead_job_is_mailed(jobs: Jobs, start: Start, eventually: Eventually) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mailbox) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        mails = logging.handlers.SMTPHandler(
            ("127.0.0.1", server.server_address[1]),
            "jobs@example.com",
            ["ops@example.com"],
            "a job is dead",
            timeout=20,
        )
        mails.setLevel(logging.ERROR)
        log.addHandler(mails)
        try:
            jobs.define("find-user", fail, retry=ONCE)
            job = jobs.enqueue("find-user", {"password": CANARY})
            start()
            eventually(lambda: Mailbox.mails, 30)
        finally:
            log.removeHandler(mails)
            server.shutdown()
    mail = email.message_from_string(Mailbox.mails[0], policy=email.policy.default).get_content()
    assert f"job {job.id} (find-user) is dead" in mail
    assert "in fail" in mail
    assert CANARY not in mail


def test_a_stopped_worker_has_logged_everything(jobs: Jobs, start: Start, seen: Seeing) -> None:
    jobs.define("fail", fail, retry=ONCE)
    made = jobs.enqueue_many([("fail", {"password": "x"})] * 30)
    worker = start()
    for job in made:
        jobs.wait(job.id, 60)
    assert worker.stop(timeout=20)
    assert {record.job_id for record in seen.of("dead")} == {job.id for job in made}
