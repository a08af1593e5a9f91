"""Helpers for the tests of applications and of storages.

For applications: ``FakeClock``, ``capture`` (what was enqueued), ``drain`` (run what is due), ``inline`` (run what is
enqueued, at once), and the fixtures of ``sloppyjobs.testing.pytest_plugin``. For storages: the suite in
``sloppyjobs.testing.conformance``.

Names are loaded on first use: the pytest plugin is imported by every test run, and must cost nothing there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sloppyjobs.storage.clock import FakeClock
    from sloppyjobs.testing.capturing import Capture, capture
    from sloppyjobs.testing.draining import drain, inline

__all__ = ["Capture", "FakeClock", "capture", "drain", "inline"]

_HOME = {
    "FakeClock": "sloppyjobs.storage.clock",
    "Capture": "sloppyjobs.testing.capturing",
    "capture": "sloppyjobs.testing.capturing",
    "drain": "sloppyjobs.testing.draining",
    "inline": "sloppyjobs.testing.draining",
}


def __getattr__(name: str) -> Any:
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'sloppyjobs.testing' has no attribute {name!r}") from None
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
