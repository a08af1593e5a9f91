"""Which frames of a traceback are kept, and by which one an error is known."""

from __future__ import annotations

import builtins
import importlib.util
import json
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sloppyjobs import Jobs, storage
from sloppyjobs.domain import failures
from sloppyjobs.domain.states import Failure
from sloppyjobs.testing import drain

Install = Callable[[str, str], ModuleType]

LIBRARY = """
def deep(levels, call):
    return call() if levels == 0 else deeper(levels - 1, call)

def deeper(levels, call):
    return call() if levels == 0 else deep(levels - 1, call)
"""

APPLICATION = """
import deep_library

def handler(ctx, payload):
    return helper(payload)

def helper(payload):
    deep_library.deep(60, fail)

def fail():
    raise LookupError("nothing there")
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make a module in a folder, as importing it does."""

    def installed(name: str, source: str, folder: str = "site-packages") -> ModuleType:
        file = tmp_path / folder / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(source)
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return installed


def failure_of(call: Callable[[], Any]) -> Failure:
    try:
        call()
    except BaseException as error:
        return failures.from_exception(error)
    raise AssertionError("it did not fail")


def give_up() -> None:
    raise LookupError("nothing there")


def test_the_handlers_frames_are_kept_when_a_library_is_deep(install: Install) -> None:
    library = install("deep_library", LIBRARY)

    def handler() -> None:
        library.deep(60, partial(json.loads, ""))

    text = failure_of(handler).traceback or ""
    assert ", in handler\n" in text
    assert "library.deep(60" in text, "the line of the handler"
    assert "frames were left out" in text
    assert text.rstrip().endswith("Expecting value: line 1 column 1 (char 0)")
    assert text.count("\n  File ") <= 40


def test_frames_of_the_application_between_two_libraries_are_kept(install: Install) -> None:
    library = install("deep_library", LIBRARY)

    def callback() -> None:
        library.deep(60, give_up)

    text = failure_of(lambda: library.deep(60, callback)).traceback or ""
    assert text.count("frames were left out") == 2
    for name in ("callback", "give_up", "<lambda>"):
        assert f", in {name}\n" in text


def test_a_short_traceback_is_whole(install: Install) -> None:
    library = install("deep_library", LIBRARY)
    text = failure_of(lambda: library.deep(20, give_up)).traceback or ""
    assert text.count(", in deep") == 21
    assert "left out" not in text


def test_causes_contexts_and_groups_are_shortened_too(install: Install) -> None:
    library = install("deep_library", LIBRARY)

    def chained() -> None:
        try:
            library.deep(60, give_up)
        except LookupError as cause:
            try:
                library.deep(60, lambda: 1 / 0)
            except ZeroDivisionError:
                raise ExceptionGroup("several", [cause, ValueError("other")]) from cause

    text = failure_of(chained).traceback or ""
    assert len(text) <= 16_000
    assert text.count("frames were left out") == 2, "of the cause, and of the same in the group"
    assert text.count(", in give_up\n") == 2
    assert "ExceptionGroup: several (2 sub-exceptions)" in text
    assert "ValueError: other" in text


def test_an_endless_recursion_of_the_application_is_bounded() -> None:
    def forever(depth: int) -> None:
        forever(depth + 1) if depth % 2 else forever(depth + 3)

    failure = failure_of(lambda: forever(0))
    assert failure.type == "RecursionError"
    assert "frames were left out" in (failure.traceback or "")
    assert len(failure.traceback or "") < 8_000


def test_a_message_of_megabytes_pushes_no_frame_out() -> None:
    text = failure_of(lambda: int("x" * 100 + "\n" * 5_000_000)).traceback or ""
    assert ", in <lambda>\n" in text

    def noisy() -> None:
        raise ValueError("begin " + "x\n" * 1_000_000 + " end")

    text = failure_of(noisy).traceback or ""
    assert ", in noisy\n" in text
    assert "ValueError: begin" in text
    assert "characters left out" in text
    assert text.rstrip().endswith("end")


def test_a_long_chain_keeps_its_last_error() -> None:
    def chain(levels: int) -> None:
        try:
            if levels:
                chain(levels - 1)
            raise LookupError("first")
        except LookupError as error:
            raise LookupError(f"level {levels}") from error

    text = failure_of(lambda: chain(100)).traceback or ""
    assert len(text) <= 16_000
    assert text.rstrip().endswith("LookupError: level 100")
    assert text.startswith("Traceback")


@pytest.mark.parametrize("library", ["deep_library", "json"])
def test_an_error_is_known_by_the_innermost_frame_of_the_application(install: Install, library: str) -> None:
    deep = install("deep_library", LIBRARY)
    failing = {"deep_library": lambda: deep.deep(3, "no function"), "json": lambda: json.loads("{")}[library]

    def handler() -> None:
        helper()

    def helper() -> None:
        failing()

    assert failure_of(handler).frame is not None
    assert str(failure_of(handler).frame).startswith(f"{__name__}:test_an_error_is_known")
    assert str(failure_of(handler).frame).endswith("<lambda>")


def test_an_application_that_is_an_installed_package_is_known_by_its_outermost_frame(install: Install) -> None:
    install("deep_library", LIBRARY)
    application = install("warehouse_app", APPLICATION)
    trace = None
    try:
        application.handler(None, {})
    except LookupError as error:
        # Without the frame of this test, which is outside of the packages.
        trace = error.__traceback__.tb_next if error.__traceback__ else None
        failure = failures.from_exception(error.with_traceback(trace))
    assert failure.frame == "warehouse_app:fail"
    assert ", in helper\n" in (failure.traceback or "")


def test_where_the_application_had_no_part_the_innermost_frame_is_named() -> None:
    try:
        json.loads("{")
    except ValueError as error:
        trace = error.__traceback__
        assert trace is not None
        assert (
            failures.from_exception(error.with_traceback(trace.tb_next)).frame == "json.decoder:JSONDecoder.raw_decode"
        )


def test_a_job_is_known_by_its_own_code_and_not_by_the_librarys(sqlite_url: str) -> None:
    jobs = Jobs(storage.from_url(sqlite_url))
    jobs.storage.init()

    def first(ctx: Any, payload: Any) -> None:
        json.loads("{")

    def second(ctx: Any, payload: Any) -> None:
        json.loads("{")

    for name, handler in (("first", first), ("second", second)):
        jobs.define(name, handler)
        jobs.enqueue(name, max_attempts=1)
    drain(jobs)
    places = {str(job.error_frame).rpartition(".")[2] for job in jobs.admin.list_jobs(status="dead")}
    assert places == {"first", "second"}
    jobs.storage.close()


def _plain() -> None:
    raise ValueError("a message\nof two lines")


def _noted() -> None:
    error = KeyError("k")
    error.add_note("a note")
    raise error


def _misspelt() -> None:
    raise AttributeError("no such thing", name="uper", obj="text")


def _suppressed() -> None:
    try:
        _plain()
    except ValueError:
        raise RuntimeError("instead") from None


@pytest.mark.parametrize("fail", [_plain, _noted, _misspelt, _suppressed])
def test_a_place_that_failed_before_is_shown_as_at_first(fail: Callable[[], None]) -> None:
    def shown() -> Failure:
        try:
            fail()
        except Exception as error:
            found = failures.from_exception(error)
            assert found.traceback == "".join(traceback.format_exception(error))
            return found
        raise AssertionError

    assert shown() == shown()


def test_equal_functions_of_different_files_are_told_apart() -> None:
    found = []
    for file in ("/app/one.py", "/app/two.py"):
        names: dict[str, Any] = {"__name__": "same"}
        exec(compile("def fail():\n    raise ValueError('no')\n", file, "exec"), names)
        try:
            names["fail"]()
        except ValueError as error:
            found.append(failures.from_exception(error))
    assert ["/app/one.py" in one.traceback for one in found] == [True, False]
    assert [one.frames[-1].file for one in found] == ["/app/one.py", "/app/two.py"]


def _kind(error: BaseException) -> str:
    return type(error).__name__


class _Text(str):
    """A text with a form of its own."""

    def __str__(self) -> str:
        return "another text"


class _Odd(Exception):
    def __init__(self, text: Any) -> None:
        self.text = text

    def __str__(self) -> str:
        if isinstance(self.text, Exception):
            raise self.text
        return self.text  # type: ignore[no-any-return]


class _WithoutModule(Exception):
    __module__ = None  # type: ignore[assignment]


def _with_note() -> Exception:
    error = ValueError("no")
    error.add_note("a note")
    return error


def _simple_errors() -> list[BaseException]:
    kinds = [kind for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, BaseException)]
    simple = [kind for kind in kinds if not issubclass(kind, UnicodeError | BaseExceptionGroup) or kind is UnicodeError]
    return [kind("a message") for kind in simple]


@pytest.mark.parametrize(
    "error",
    [
        *_simple_errors(), ValueError(), ValueError(""), ValueError("two\nlines"), ValueError(1, 2), KeyError(""),
        OSError(2, "no such file", "name"), UnicodeDecodeError("utf-8", b"x", 0, 1, "no"), _Odd(_Text("text")),
        _Odd(ValueError("no text")), _Odd(7), _Odd("None"), _WithoutModule("no"), _with_note(),
        AttributeError("no", name="appendd", obj=[]), ImportError("no", name="x", path="y"),
        SyntaxError("no", ("file", 1, 2, "some code", 1, 3)), json.JSONDecodeError("no", "{", 0),
    ],
    ids=_kind,
)  # fmt: skip
def test_the_last_lines_are_those_of_python(error: BaseException) -> None:
    try:
        raise error
    except BaseException as raised:
        stored = failures.from_exception(raised).traceback
        expected = traceback.format_exception_only(raised)
    assert stored is not None
    assert stored.startswith("Traceback") and stored.endswith("".join(expected))
