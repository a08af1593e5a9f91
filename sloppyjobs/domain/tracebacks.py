"""Tracebacks within bounds: the application's own frames are shown, and library frames are omitted in the middle.

Pure: no clock. Source lines are read by ``linecache``, as for every traceback.
"""

from __future__ import annotations

import site
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple

from sloppyjobs.domain.payload import clean_text

MOST_FRAMES = 40
"""Frames of one exception that are shown whole; of more, some in the middle are omitted."""
FIRST, LAST, OWN = 3, 12, 20
"""Of too many frames: the outermost, the innermost, and so many of the application's are shown."""
PART_LIMIT = 2_000
"""Characters of one frame, or of one message, inside a traceback."""
GROUP_WIDTH, GROUP_DEPTH = 10, 5

_APPLICATION, _STDLIB, _SLOPPYJOBS = "application", "standard library", "sloppyjobs"
_HERE = Path(__file__).parents[1].as_posix()
_OF_USERS = (f"{_HERE}/testing/", f"{_HERE}/demo/")
"""What lies in our package and holds handlers, as applications do."""


class Frame(NamedTuple):
    """A place in the code that an exception went through."""

    file: str
    line: int
    function: str
    module: str


class FormattedError(NamedTuple):
    """What is stored of an exception: its traceback as text, its frames, and the ``module:function`` that raised it."""

    text: str
    frames: tuple[Frame, ...]
    raised_in: str | None


def format_error(error: BaseException, limit: int) -> FormattedError:
    """The traceback of an exception, with causes, contexts and groups, in at most ``limit`` characters."""
    try:
        known = _cached_stack(error)
    except BaseException:
        known = None
    raised_in = raising_frame(error.__traceback__) if known is None else known.raised_in
    try:
        if known is not None:
            # What is cached is clean already.
            text, frames = known.text + clean_text(_last_lines(error), sys.maxsize), known.frames
        else:
            whole, frames = _format_all(error)
            text = clean_text(whole, sys.maxsize)
    except BaseException:
        return FormattedError("the traceback could not be formatted", (), raised_in)
    return FormattedError(text if len(text) <= limit else truncate_middle(text, limit), frames, raised_in)


def _format_all(error: BaseException) -> tuple[str, tuple[Frame, ...]]:
    described = traceback.TracebackException.from_exception(
        error, lookup_lines=False, compact=True, max_group_width=GROUP_WIDTH, max_group_depth=GROUP_DEPTH
    )
    frames = _frames(described.stack, error.__traceback__)
    for one in _with_causes(described):
        one.stack = _ShortStack.of(one.stack)
    return "".join(truncate_middle(part, PART_LIMIT) for part in described.format()), frames


def raising_frame(trace: TracebackType | None) -> str | None:
    """Where an error comes from, as ``module:function``; without a line number, which changes with every edit.

    That is the innermost frame of the application: neither of the standard library, nor of an installed package, nor of
    sloppyjobs. An application that is an installed package itself is known by its outermost frame. Where the
    application had no part in it, it is the innermost frame.
    """
    if trace is None:
        return None
    home: str | None = None
    found: FrameType | None = None
    while True:
        frame = trace.tb_frame
        origin = _origin(frame.f_code.co_filename)
        if origin == _STDLIB and frame.f_globals.get("__name__") == "__main__":
            origin = _APPLICATION
        if home is None and origin not in (_STDLIB, _SLOPPYJOBS):
            home = origin
        if origin in (_APPLICATION, home):
            found = frame
        if trace.tb_next is None:
            break
        trace = trace.tb_next
    named = found or trace.tb_frame
    return f"{named.f_globals.get('__name__', '?')}:{named.f_code.co_qualname}"


def truncate_middle(text: str, limit: int) -> str:
    """The text with its middle omitted where it is longer than ``limit``, and a mark that says how much is missing."""
    if len(text) <= limit:
        return text
    marker = f"\n… ({len(text) - limit:,} characters left out) …\n"
    room = limit - len(marker)
    head = room // 3
    return text[:head] + marker + text[len(text) - (room - head) :]


# Cached stacks: where many jobs fail, they fail in few places


def _cached_stack(error: BaseException) -> FormattedError | None:
    """The traceback down to the exception's own lines; None where it has causes or parts, which are shown as well."""
    hidden = error.__context__ is None or error.__suppress_context__
    if error.__cause__ is not None or not hidden or isinstance(error, BaseExceptionGroup):
        return None
    codes: list[CodeType] = []
    entries: list[tuple[int, int, str]] = []
    trace = error.__traceback__
    while trace is not None and len(codes) <= MOST_FRAMES:
        code = trace.tb_frame.f_code
        codes.append(code)
        # By identity: code that is equal may be of another file.
        entries.append((id(code), trace.tb_lasti, trace.tb_frame.f_globals.get("__name__", "?")))
        trace = trace.tb_next
    if not codes or len(codes) > MOST_FRAMES:
        return None
    key = tuple(entries)
    known, _ = _stacks.get(key, (None, ()))
    if known is None:
        trace = error.__traceback__
        described = traceback.TracebackException(type(error), error, trace, lookup_lines=False, compact=True)
        frames = _frames(described.stack, trace)
        parts = [_HEADER, *_ShortStack.of(described.stack).format()]
        text = clean_text("".join(truncate_middle(part, PART_LIMIT) for part in parts), sys.maxsize)
        known = FormattedError(text, frames, raising_frame(trace))
        if len(_stacks) >= STACK_CACHE:
            _stacks.clear()
        _stacks[key] = known, tuple(codes)
    return known


def _last_lines(error: BaseException) -> str:
    """What follows the frames: class, message, notes, suggestions."""
    plain = _plain_line(error)
    if plain is not None:
        return truncate_middle(plain, PART_LIMIT)
    described = traceback.TracebackException(
        type(error), error, error.__traceback__, limit=0, lookup_lines=False, compact=True
    )
    return "".join(truncate_middle(part, PART_LIMIT) for part in described.format_exception_only())


_WITH_SUGGESTIONS = (SyntaxError, ImportError, NameError, AttributeError)
"""Of these ``traceback`` tells more than class and message."""


def _plain_line(error: BaseException) -> str | None:
    """Class and message on one line, as ``traceback`` has them; None where it may have more to tell."""
    kind = type(error)
    try:
        if issubclass(kind, _WITH_SUGGESTIONS) or getattr(error, "__notes__", None) is not None:
            return None
        message, module, name = str(error), kind.__module__, kind.__qualname__
    except BaseException:
        return None
    if not type(message) is type(module) is type(name) is str:
        return None
    if module not in ("__main__", "builtins"):
        name = f"{module}.{name}"
    return f"{name}: {message}\n" if message else f"{name}\n"


_HEADER = "Traceback (most recent call last):\n"
STACK_CACHE = 256
"""Stacks that are cached; then the cache is cleared."""
_stacks: dict[tuple[tuple[int, int, str], ...], tuple[FormattedError, tuple[CodeType, ...]]] = {}
"""By the instructions; with the code objects, so that no other gets their ids."""


# Frames


def _frames(stack: Sequence[traceback.FrameSummary], trace: TracebackType | None) -> tuple[Frame, ...]:
    modules = [str(frame.f_globals.get("__name__", "?")) for frame, _ in traceback.walk_tb(trace)]
    named = zip(stack, modules, strict=True)
    frames = [Frame(one.filename, one.lineno or 0, one.name, module) for one, module in named]
    return tuple(frames[index] for index in _shown_frames(stack))


_GAP = "<left out>"


class _ShortStack(traceback.StackSummary):
    """Frames of which some in the middle may be omitted; a line says how many."""

    @classmethod
    def of(cls, frames: Sequence[traceback.FrameSummary]) -> _ShortStack:
        short = cls()
        before = -1
        for index in [*_shown_frames(frames), len(frames)]:
            if omitted := index - before - 1:
                short.append(traceback.FrameSummary(_GAP, omitted, "", lookup_line=False, line=""))
            if index < len(frames):
                short.append(frames[index])
            before = index
        return short

    def format_frame_summary(self, frame_summary: traceback.FrameSummary, **options: Any) -> str:
        """The lines of a frame, or how many were omitted."""
        if frame_summary.filename == _GAP:
            number = frame_summary.lineno
            return f"  … {number} {'frame was' if number == 1 else 'frames were'} left out …\n"
        return super().format_frame_summary(frame_summary, **options)


def _shown_frames(frames: Sequence[traceback.FrameSummary]) -> list[int]:
    """The indexes of the frames that are shown."""
    if len(frames) <= MOST_FRAMES:
        return list(range(len(frames)))
    origins = [_origin(one.filename) for one in frames]
    home = next((one for one in origins if one not in (_STDLIB, _SLOPPYJOBS)), _APPLICATION)
    own = [index for index, origin in enumerate(origins) if origin in (_APPLICATION, home)]
    if len(own) > OWN:
        own = own[: OWN // 2] + own[-OWN // 2 :]
    return sorted({*range(FIRST), *range(len(frames) - LAST, len(frames)), *own})


def _with_causes(described: traceback.TracebackException) -> Iterable[traceback.TracebackException]:
    found = [described]
    for one in found:
        further = (one.__cause__, one.__context__, *(one.exceptions or ()))
        found += [each for each in further if each is not None]
    return found


# Origins


def _library_paths() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Where this environment keeps the standard library, and where installed packages."""
    paths = sysconfig.get_paths()
    packages = {paths["purelib"], paths["platlib"], *site.getsitepackages(), site.getusersitepackages()}
    return (
        tuple(f"{Path(one).as_posix()}/" for one in {paths["stdlib"], paths["platstdlib"]}),
        tuple(f"{Path(one).as_posix()}/" for one in packages if one),
    )


_STDLIB_PATHS, _PACKAGE_PATHS = _library_paths()


@lru_cache(maxsize=4_096)
def _origin(file: str) -> str:
    """Who wrote a file: the application, the standard library, sloppyjobs, or the installed package of that name."""
    if file.startswith("<"):
        # Frozen modules, and code that a library generated.
        return _STDLIB
    file = file.replace("\\", "/")
    if file.startswith(f"{_HERE}/") and not file.startswith(_OF_USERS):
        return _SLOPPYJOBS
    for path in _PACKAGE_PATHS:
        if file.startswith(path):
            return file[len(path) :].partition("/")[0]
    for folder in ("/site-packages/", "/dist-packages/"):
        before, found, rest = file.rpartition(folder)
        if found and before:
            return rest.partition("/")[0]
    return _STDLIB if file.startswith(_STDLIB_PATHS) else _APPLICATION
