"""Connections are not kept when one of them has failed: what ended it has mostly ended the others too."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from sqlalchemy import Engine, event


def close_with_failed(engine: Engine, is_useless: Callable[[Any], bool] | None = None) -> None:
    """Close every connection of this engine, from now on, when one of them is given up because of an error.

    The same happens when one comes back of which ``is_useless`` is true.
    """
    generation = 0

    def connected(_driver: Any, record: Any) -> None:
        record.info["sloppyjobs_generation"] = generation
        record.info["sloppyjobs_process"] = os.getpid()

    def invalidated(_driver: Any, record: Any, error: BaseException | None) -> None:
        if error is not None and record.info.get("sloppyjobs_generation") == generation:
            engine.dispose()

    def disposed(_engine: Engine) -> None:
        nonlocal generation
        generation += 1

    def returned(driver: Any, record: Any) -> None:
        if driver is None:
            return
        if is_useless is not None and is_useless(driver):
            engine.dispose()
        # It was in use while the others were closed; nobody would ever use it again.
        if record.info.get("sloppyjobs_generation") == generation:
            return
        # A forked child leaves alone what is its parent's.
        if record.info.get("sloppyjobs_process") == os.getpid():
            record.invalidate()

    # Before the listeners that are there already, some of which execute statements.
    event.listen(engine, "connect", connected, insert=True)
    event.listen(engine, "invalidate", invalidated)
    event.listen(engine, "checkin", returned)
    event.listen(engine, "engine_disposed", disposed)
