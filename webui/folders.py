"""Where the templates and the static files are: inside the package in a wheel, beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def find(name: str) -> Path:
    """The folder ``templates`` or ``static``; ``FileNotFoundError`` says where it was looked for."""
    tried = (_PACKAGE / name, _PACKAGE.parent / name)
    for folder in tried:
        if (folder / ("sloppyjobs" if name == "templates" else "css")).exists():
            return folder
    raise FileNotFoundError(f"the UI's {name} are missing; looked in {' and '.join(map(str, tried))}")
