"""Importing the library is cheap and does nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import importing

import sloppyjobs

PYTHON = Path(sys.executable)
FOREIGN = {"flask", "flask_sqlalchemy", "werkzeug", "webui", "click", "rich", "gunicorn", "prometheus_client"}


def test_every_public_name_is_there_without_side_effects_and_without_flask(tmp_path: Path) -> None:
    seen = importing.everything_public(PYTHON, tmp_path)
    assert (seen["opened"], seen["threads"], seen["logging"]) == ([], 1, [])
    assert not FOREIGN & set(seen["modules"])


def test_the_import_takes_less_than_150_ms(tmp_path: Path) -> None:
    assert importing.seconds(PYTHON, tmp_path) < 0.15


def test_every_listed_name_can_be_used() -> None:
    assert len(set(sloppyjobs.__all__)) == len(sloppyjobs.__all__)
    assert all(getattr(sloppyjobs, name) is not None for name in sloppyjobs.__all__)
