"""The picture of the state machine shows the state machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pages import DOCS, ROOT

GENERATOR = DOCS / "generators" / "states.py"
PICTURE = DOCS / "explanation" / "states.svg"


def _run(script: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(script)], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_picture_is_up_to_date() -> None:
    drawn = _run(GENERATOR)
    assert drawn.returncode == 0, drawn.stderr
    command = f"python {GENERATOR.relative_to(ROOT)} > {PICTURE.relative_to(ROOT)}"
    assert drawn.stdout == PICTURE.read_text(), f"run {command}"


def test_an_edge_that_is_not_drawn_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "states.py"
    left_out = "    (Status.QUEUED, Status.PROCESSING): "
    lines = GENERATOR.read_text().splitlines(keepends=True)
    script.write_text("".join(line for line in lines if not line.startswith(left_out)))
    drawn = _run(script)
    assert drawn.returncode == 1
    assert "processing" in drawn.stderr
