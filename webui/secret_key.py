"""The key that signs sessions and forms of the standalone application: given, or made once and stored in a file."""

from __future__ import annotations

import logging
import os
import secrets
import stat
from pathlib import Path

log = logging.getLogger(__name__)

FILE = ".secret_key"
SHORTEST = 32
"""Characters that a key in a file must have; ours have twice as many."""


class UnsafeKey(Exception):
    """The file cannot be trusted. The text says why, and what to do."""


def stored_in(folder: Path) -> str:
    """The key in a folder, made where there is none. Raises ``UnsafeKey`` where somebody else may know it."""
    file = folder / FILE
    try:
        _make(file)
    except FileExistsError:
        return _read(file)
    except OSError:
        if os.path.lexists(file):
            return _read(file)
        log.warning(
            "no SECRET_KEY, and none can be kept in %s: forms expire at every restart, and fail where there are "
            "several server processes; set SECRET_KEY",
            folder,
        )
        return secrets.token_hex(32)
    log.info("made a SECRET_KEY and kept it in %s", file)
    return _read(file)


def _make(file: Path) -> None:
    """Write a new key for this user alone. Whole or not at all: several server processes start at once."""
    if os.path.lexists(file):
        raise FileExistsError(file)
    draft = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as draft_file:
        draft_file.write(secrets.token_hex(32))
    try:
        os.link(draft, file)
    finally:
        draft.unlink()


def _read(file: Path) -> str:
    # Neither a link to elsewhere is followed, nor is a pipe waited for.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with open(file, encoding="utf-8", errors="replace", opener=lambda path, _: os.open(path, flags)) as stored:
            _check_file(file, os.fstat(stored.fileno()))
            key = stored.read(4096).strip()
    except OSError as error:
        raise _unsafe(file, f"it cannot be opened as a file of its own ({error.strerror})") from error
    if len(key) < SHORTEST:
        raise _unsafe(file, f"it holds {len(key)} characters, and a key has at least {SHORTEST}")
    return key


def _check_file(file: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _unsafe(file, "it is not a regular file")
    if not hasattr(os, "geteuid"):
        return
    if found.st_uid != os.geteuid():
        raise _unsafe(file, f"it belongs to user {found.st_uid}, and this process is of user {os.geteuid()}")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise _unsafe(file, f"others may read or write it (mode {mode:04o}, and it must be 0600)")


def _unsafe(file: Path, why: str) -> UnsafeKey:
    return UnsafeKey(
        f"{file} is not used as SECRET_KEY: {why}. Who knows this key can forge sessions. "
        "Remove the file, and a new key is made; or set SECRET_KEY"
    )
