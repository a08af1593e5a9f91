"""Importing the library is cheap and does nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import importing
import pytest

import sloppyjobs

PYTHON = Path(sys.executable)
HEAVY = {"sqlalchemy", "msgspec", "flask"}
FOREIGN = {"flask", "flask_sqlalchemy", "werkzeug", "webui", "click", "rich", "gunicorn", "prometheus_client"}


def test_every_public_name_is_there_without_side_effects_and_without_flask(tmp_path: Path) -> None:
    seen = importing.everything_public(PYTHON, tmp_path)
    assert (seen["opened"], seen["threads"], seen["logging"]) == ([], 1, [])
    assert not FOREIGN & set(seen["modules"])


def test_nothing_is_loaded_before_it_is_needed(tmp_path: Path) -> None:
    bare = importing.loaded(PYTHON, tmp_path, "import sloppyjobs")
    assert {name for name in bare if name.startswith("sloppyjobs")} == {"sloppyjobs"}
    assert not HEAVY & bare
    error = importing.loaded(PYTHON, tmp_path, "from sloppyjobs import JobsError")
    assert {name for name in error if name.startswith("sloppyjobs")} == {"sloppyjobs", "sloppyjobs.errors"}
    assert not HEAVY & error
    assert importing.loaded(PYTHON, tmp_path, "from sloppyjobs import Jobs") >= HEAVY - FOREIGN
    whole = importing.loaded(PYTHON, tmp_path, "from sloppyjobs import *; Jobs, NO_RETRY, storage")
    assert "sloppyjobs.storage" in whole


def test_a_name_that_does_not_exist_is_told() -> None:
    with pytest.raises(AttributeError, match="'sloppyjobs' has no attribute 'Job2'"):
        sloppyjobs.Job2  # type: ignore[attr-defined]  # noqa: B018
    assert dir(sloppyjobs) == sorted(sloppyjobs.__all__)


def test_the_import_takes_less_than_150_ms(tmp_path: Path) -> None:
    assert importing.seconds(PYTHON, tmp_path) < 0.15


def test_every_listed_name_can_be_used() -> None:
    assert len(set(sloppyjobs.__all__)) == len(sloppyjobs.__all__)
    assert all(getattr(sloppyjobs, name) is not None for name in sloppyjobs.__all__)
