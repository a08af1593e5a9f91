"""Encryption at rest: which keys are here, which the stored texts need, and what is left for ``rekey``."""

from __future__ import annotations

from typing import NamedTuple

from flask import Response

from sloppyjobs.views.encryption import EncryptionView
from webui.rendering import render
from webui.routes import Route
from webui.ui import Ui

STATES = {"running": ("processing", "Running"), "stopped": ("failed", "Stopped"), "finished": ("succeeded", "Finished")}
"""Icon and word of a run of ``rekey``."""


class KeyLine(NamedTuple):
    """One key, or what lies in the clear: how many texts need it, and in which state it is."""

    name: str
    texts: int
    icon: str
    state: str


def show(ui: Ui) -> Response:
    """The keys, by their ids."""
    seen = ui.admin.encryption()
    total = sum(seen.needed.values()) + seen.in_the_clear
    current = seen.needed.get(seen.keys[0], 0) if seen.keys else 0
    done = 100.0 * current / total if total else 100.0
    run = seen.rekey
    return render(
        ui, "encryption.html", title="Encryption", nav="audit", live=run is not None and run.state == "running",
        seen=seen, lines=lines(seen), total=total, current=current, done=done, run=run, states=STATES,
    )  # fmt: skip


def lines(seen: EncryptionView) -> list[KeyLine]:
    """The keys that are here, then those that are missing, then what has none."""
    made = [
        KeyLine(key, seen.needed.get(key, 0), "succeeded" if place == 0 else "queued", _state(place))
        for place, key in enumerate(seen.keys)
    ]
    made += [KeyLine(key, seen.needed[key], "failed", "Missing here") for key in seen.missing]
    if seen.in_the_clear:
        made.append(KeyLine("No key", seen.in_the_clear, "waiting", "Not encrypted"))
    return made


def _state(place: int) -> str:
    return "Encrypts new texts" if place == 0 else "Decrypts only"


ROUTES = (Route("/encryption", "encryption", show, "encryption.view"),)
