"""What a test does without something that it needs: it is skipped by name, and fails where nothing may be missing."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def without(what: str) -> NoReturn:
    """Say what is missing and how to get it."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)
