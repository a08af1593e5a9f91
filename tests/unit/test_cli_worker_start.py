"""What a worker's own process does before the worker runs."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any, cast

from sloppyjobs.cli import worker
from sloppyjobs.cli.target import Target


def test_garbage_collections_while_jobs_run_do_not_look_through_what_was_loaded_before() -> None:
    loaded: list[Any] = [[]]

    def is_looked_through() -> bool:
        return any(one is loaded for one in gc.get_objects())

    seen: list[bool] = []
    running = SimpleNamespace(run=lambda: seen.append(is_looked_through()))
    jobs: Any = SimpleNamespace(create_worker=lambda **_settings: running)
    assert is_looked_through()
    worker._work(cast(Target, SimpleNamespace(jobs=jobs)), {})
    assert seen == [False]
