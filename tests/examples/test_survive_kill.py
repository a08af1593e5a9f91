"""The example that kills its worker tells the truth."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.slow
def test_every_job_is_completed_after_the_kill(shown_by: Callable[[str], str]) -> None:
    shown = shown_by("survive_kill.py")
    assert "order 2 was rolled back, and so was its job: 0 found" in shown
    assert "the worker was killed in the middle of a job: ['processing', 'queued', 'queued']" in shown
    assert shown.count("succeeded after") == 3
    assert "book packed" in shown
