"""What a worker's own process does before the worker runs."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any, cast

from sloppyjobs.cli import worker
from sloppyjobs.cli.target import Target


def test_garbage_collections_while_jobs_run_do_not_look_through_what_was_loaded_before() -> None:
    frozen: list[int] = []
    running = SimpleNamespace(run=lambda: frozen.append(gc.get_freeze_count()))
    jobs: Any = SimpleNamespace(create_worker=lambda **_settings: running)
    before = gc.get_freeze_count()
    try:
        worker._work(cast(Target, SimpleNamespace(jobs=jobs)), {})
    finally:
        gc.unfreeze()
    assert frozen[0] > before + 1000
