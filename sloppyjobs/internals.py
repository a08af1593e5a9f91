"""What the parts of the library share of one ``Jobs``. Applications see none of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sloppyjobs.encryption import PLAIN, Sealing
from sloppyjobs.ids import Ids
from sloppyjobs.observe.hooks import Hooks, Observer

if TYPE_CHECKING:
    from sloppyjobs.worker.runners.find_jobs import Find


@dataclass(frozen=True, slots=True)
class Internals:
    """The inside of one ``Jobs``."""

    ids: Ids
    hooks: Hooks
    observers: list[Observer]
    """Told of everything that is enqueued."""
    find: Callable[[], Find | None]
    """How another process, which imports the same modules, finds these jobs; None where it cannot."""
    sealing: Sealing = PLAIN
    """Encrypts what is written and decrypts what is read."""


class HasInternals:
    """A ``Jobs``, as the parts of the library see it."""

    _internals: Internals


def internals(jobs: HasInternals) -> Internals:
    """The inside of these jobs."""
    return jobs._internals
