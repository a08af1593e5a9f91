"""What several requests to stop mean to a worker."""

from __future__ import annotations

import time

from sloppyjobs.worker.signals import SAME_SIGNAL_SECONDS, StopRequests


def test_one_that_comes_twice_counts_once() -> None:
    requests = StopRequests()
    assert (requests(), requests()) == (False, None)


def test_somebody_who_presses_again_and_again_is_heard() -> None:
    requests = StopRequests()
    began = time.monotonic()
    assert requests() is False
    while time.monotonic() < began + SAME_SIGNAL_SECONDS + 0.2:
        time.sleep(0.1)
        answer = requests()
    assert answer is True
