"""The smallest example does what it prints."""

from __future__ import annotations

from collections.abc import Callable


def test_every_job_runs_and_the_failed_one_again(shown_by: Callable[[str], str]) -> None:
    assert shown_by("minimal.py").splitlines() == [
        "3 jobs are queued",
        "Hello, Ada! (succeeded at attempt 1)",
        "Hello, Grace! (succeeded at attempt 2)",
        "Hello, Edsger! (succeeded at attempt 1)",
    ]
