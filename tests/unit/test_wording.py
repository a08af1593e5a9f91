"""The sentences that operators read: plain words for what they used to puzzle over."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READ = ("templates/**/*.html", "webui/**/*.py", "static/js/*.js", "sloppyjobs/admin/*.py", "sloppyjobs/cli/*.py")
RIDDLES = (
    "What lies in them",
    "Nothing of it starts",
    "Nobody works on",
    " goes on.",
    "Jobs that run already go on",
    "resumed, it is scheduled again",
    "Somebody was faster",
    "That cannot be asked",
    "budget of attempts",
    "Attempts settled",
    "Mean time in a handler",
    "In the last 1 h",
    "is not heard of",
    "declares it no more",
    "has to tick",
    "I resume it",
    ">Timed<",
    '"Timed"',
    "All of them",
    "kinds of jobs",
    "No job is failed",
    "Cut to a bound",
    "The same as a table",
)
_DOCSTRING = re.compile(r'"""(?:.|\n)*?"""')


def _sentences(file: Path) -> str:
    text = file.read_text()
    return _DOCSTRING.sub("", text) if file.suffix == ".py" else text


@pytest.mark.parametrize("riddle", RIDDLES)
def test_no_sentence_is_a_riddle(riddle: str) -> None:
    files = [file for pattern in READ for file in ROOT.glob(pattern)]
    assert len(files) > 100
    assert [str(file.relative_to(ROOT)) for file in files if riddle in _sentences(file)] == []
