"""How another process finds the jobs of its worker: it imports what the worker has imported."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Find:
    """Finds an object by a call that can be sent to another process."""

    function: Callable[..., Any]
    arguments: tuple[str, ...]

    def __call__(self) -> Any:
        """What is looked for."""
        return self.function(*self.arguments)


def by_name(wanted: object) -> Find | None:
    """The name at the top of a module under which something can be imported; None where it has none."""
    modules = [name for name in list(sys.modules) if name not in ("__main__", "__mp_main__")]
    for module in (*modules, "__main__"):
        names = getattr(sys.modules.get(module), "__dict__", {})
        for name, value in list(names.items()):
            if value is wanted:
                return Find(imported, (module, name))
    return None


def imported(module: str, path: str) -> Any:
    """What has this name in that module; a dotted one goes through classes."""
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found
